package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/** Rows as they are, those of a key side by side. They are sorted by eight bytes of the key; rows that those don't tell apart, by all of it. */
class KeyGrouping(nKeys: Int, schema: Seq[Attribute], limit: Long) {
  private val (keyOf, otherOf) = (UnsafeProjection.create(schema.take(nKeys), schema), UnsafeProjection.create(schema.take(nKeys), schema))

  def apply(rows: Iterator[InternalRow], spilled: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    val (aside, all) = (new ArrayBuffer[InternalRow], new ArrayBuffer[UnsafeRow])
    var first: UnsafeRow = null
    var (bytes, skip) = (0L, 0)
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow].copy()
      bytes += row.getSizeInBytes + KeyGrouping.Entry
      val key = keyOf(row)
      if (key.anyNull) aside += row else {
        if (first == null) { first = key.copy(); skip = first.getSizeInBytes } else skip = KeyBytes.common(first, key, skip)
        all += row
      }
    }
    if (rows.hasNext) spilled(aside.iterator ++ all ++ rows) else aside.iterator ++ inOrder(all.toArray, skip)
  }

  private def inOrder(all: Array[UnsafeRow], skip: Int): Iterator[InternalRow] = {
    val order = KeyBytes.sorted(all.length, i => KeyBytes.eight(keyOf(all(i)), skip))
    val sorted = Array.tabulate(all.length)(n => all(order.at(n)))
    var from = 0
    while (from < sorted.length) {
      var (to, mixed) = (from + 1, false)
      while (to < sorted.length && order.prefix(to) == order.prefix(from)) { mixed ||= keyOf(sorted(to)) != otherOf(sorted(from)); to += 1 }
      if (mixed) java.util.Arrays.sort(sorted, from, to, (a: UnsafeRow, b: UnsafeRow) => KeyBytes.compare(keyOf(a), otherOf(b)))
      from = to
    }
    sorted.iterator
  }
}

object KeyGrouping {
  /** Bytes that a row takes beside its own. */
  val Entry = 64
}
