package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.spark.SparkRadixSort

/**
 * Puts rows of a key next to each other, in the order they arrived in; rows under a null key come first.
 * Rows are sorted by the eight bytes of the key that follow what all keys have in common; the few that
 * agree in those are compared by the whole key. `limit`: more bytes than this go to a sorter that can spill
 * to disk.
 */
class KeyGrouping(keys: Seq[Attribute], schema: Seq[Attribute], limit: Long) {
  // Two, because comparing two rows needs the keys of both at a time, and a projection reuses its result.
  private val keyOf = UnsafeProjection.create(keys, schema)
  private val otherKeyOf = UnsafeProjection.create(keys, schema)

  def apply(
      rows: Iterator[InternalRow],
      sort: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    val (unkeyed, keyed) = (new ArrayBuffer[InternalRow], new ArrayBuffer[UnsafeRow])
    var first: UnsafeRow = null
    var (bytes, common) = (0L, 0)
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow].copy()
      bytes += row.getSizeInBytes + KeyGrouping.RowOverhead
      val key = keyOf(row)
      if (key.anyNull) unkeyed += row
      else {
        if (first == null) {
          first = key.copy()
          common = first.getSizeInBytes
        } else common = KeyBytes.commonPrefix(first, key, common)
        keyed += row
      }
    }
    if (rows.hasNext) sort(unkeyed.iterator ++ keyed ++ rows)
    else unkeyed.iterator ++ grouped(keyed.toArray, common)
  }

  private def grouped(rows: Array[UnsafeRow], common: Int): Iterator[InternalRow] = {
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

object KeyGrouping {
  /** Bytes that a buffered row takes on the heap besides its own: object, header, reference. */
  val RowOverhead = 64
}
