package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions.Attribute

/**
 * The columns of a partial aggregate as it comes through the shuffle: the group, which begins with the key;
 * the aggregate's state; and the side output of a row that travels by itself.
 */
case class PartialLayout(input: Seq[Attribute], keyCount: Int, groupCount: Int, stateCount: Int) {
  def keys: Seq[Attribute] = input.take(keyCount)
  def group: Seq[Attribute] = input.take(groupCount)
  def state: Seq[Attribute] = input.slice(groupCount, groupCount + stateCount)

  /** Whether a key is one group, and so at most one merged row. */
  def groupIsKey: Boolean = groupCount == keyCount

  /** Null in rows that may be merged. */
  val sideOutput: Int = input.length - 1
}
