package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.spark.memory.SparkRadixSort

/**
 * Puts rows of a key next to each other, in the order they are in; keys come in the order of the eight bytes
 * that follow what all keys have in common. The few that agree in those are compared by the whole key.
 */
class AdjacentRows(keys: Seq[Attribute], schema: Seq[Attribute]) {
  // Two, because comparing two rows needs the keys of both at a time, and a projection reuses its result.
  private val keyOf = UnsafeProjection.create(keys, schema)
  private val otherKeyOf = UnsafeProjection.create(keys, schema)

  /** `common`: how many bytes all keys begin with. */
  def apply(rows: Array[UnsafeRow], common: Int): Iterator[UnsafeRow] = {
    val order = SparkRadixSort.sort(rows.length, i => KeyBytes.eightBytes(keyOf(rows(i)), common))
    val sorted = Array.tabulate(rows.length)(n => rows(order.position(n)))
    var from = 0
    while (from < sorted.length) {
      var (to, mixed) = (from + 1, false)
      while (to < sorted.length && order.prefix(to) == order.prefix(from)) {
        mixed ||= keyOf(sorted(to)) != otherKeyOf(sorted(from))
        to += 1
      }
      if (mixed) java.util.Arrays.sort(sorted, from, to, byKey)
      from = to
    }
    sorted.iterator
  }

  private val byKey: java.util.Comparator[UnsafeRow] = (a, b) => KeyBytes.compare(keyOf(a), otherKeyOf(b))
}
