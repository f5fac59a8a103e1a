package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/**
 * Puts rows of a key next to each other, in the order they arrived in; rows under a null key come first.
 * `limit`: more bytes than this go to a sorter that can spill to disk.
 */
class KeyGrouping(keys: Seq[Attribute], schema: Seq[Attribute], limit: Long) {
  private val keyOf = UnsafeProjection.create(keys, schema)
  private val adjacent = new AdjacentRows(keys, schema)

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
    else unkeyed.iterator ++ adjacent(keyed.toArray, common)
  }
}

object KeyGrouping {
  /** Bytes that a buffered row takes on the heap besides its own: object, header, reference. */
  val RowOverhead = 64
}
