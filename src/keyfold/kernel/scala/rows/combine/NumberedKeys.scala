package org.apache.spark.sql.keyfold.rows.combine

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.keyfold.spark.scan.{SparkColumnarRows, SparkDictionary}

/**
 * Finds the states of keys by the numbers that a file's dictionary has for them: the key itself is read,
 * hashed and compared once per dictionary, and not once per row.
 */
private[rows] final class NumberedKeys(rows: SparkColumnarRows, column: Int, states: FlatStates) {
  private var batch = 0
  private var dictionary: SparkDictionary = _
  // By number in one dictionary: one more than the record of the key's state; 0 where that is not known.
  private var records = new Array[Int](NumberedKeys.FirstRecords)
  private var recordsOf: AnyRef = _

  /** The state of the key of the last row; null if it has no number, or its state is not known by it. */
  def state(): UnsafeRow = {
    val number = numberOfKey()
    if (number < 0 || number >= records.length || records(number) == 0) null
    else states.of(records(number) - 1)
  }

  /** Remembers the state that was last found, or added, as that of the key of the last row. */
  def remember(): Unit = {
    val number = numberOfKey()
    if (number >= 0) {
      if (number >= records.length) records = Arrays.copyOf(records, (number + 1).max(2 * records.length))
      records(number) = states.last + 1
    }
  }

  /** The states are gone. */
  def clear(): Unit = Arrays.fill(records, 0)

  private def numberOfKey(): Int = {
    if (rows.batchNumber != batch) begin()
    if (dictionary == null || rows.column(column).isNullAt(rows.position)) -1
    else dictionary.number(rows.position)
  }

  private def begin(): Unit = {
    batch = rows.batchNumber
    dictionary = SparkDictionary(rows.column(column)).orNull
    if (dictionary != null && (dictionary.identity ne recordsOf)) {
      clear()
      recordsOf = dictionary.identity
    }
  }
}

private object NumberedKeys {
  private val FirstRecords = 1 << 10
}
