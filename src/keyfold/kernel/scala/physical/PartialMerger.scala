package org.apache.spark.sql.keyfold.physical

import java.util.{HashMap => JavaMap}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError, UserExpression}
import org.apache.spark.sql.keyfold.spark.SparkRadixSort

/**
 * Merges the partial aggregates of each group in a hash map and hands them out by key. A row that must stay
 * by itself, because it is late or replayed, or because merging it failed, follows the rows of its key; the
 * stateful operator decides what becomes of it. Rows under a null key, which are side outputs, come first.
 * Beyond `limit` bytes all rows go to a sorter that can spill to disk.
 */
class PartialMerger(fold: AggregateFold, layout: PartialLayout, limit: Long) {
  private val keyOf = UnsafeProjection.create(layout.keys, layout.input)
  private val groupIsKey = layout.groupIsKey
  private val groupOf = if (groupIsKey) keyOf else UnsafeProjection.create(layout.group, layout.input)
  private val sideOutput = layout.sideOutput
  private val merge = PartialMerger.mergeInPlace(fold, layout)
  private val joined = new JoinedRow
  private val merged = new JavaMap[UnsafeRow, UnsafeRow]
  // By key, what `merged` cannot hand out by itself: rows that stay alone and, where a key has several
  // groups, the merged rows too, which are updated in place.
  private val others = new JavaMap[UnsafeRow, ArrayBuffer[UnsafeRow]]
  private var bytes = 0L

  def apply(
      rows: Iterator[InternalRow],
      sort: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    val unkeyed = new ArrayBuffer[InternalRow]
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow]
      val key = keyOf(row)
      if (key.anyNull) {
        unkeyed += row.copy()
        bytes += row.getSizeInBytes
      } else if (row.isNullAt(sideOutput)) add(groupOf(row), row)
      else keep(row, row.copy())
    }
    if (rows.hasNext) sort(unkeyed.iterator ++ unordered ++ rows) else unkeyed.iterator ++ ordered
  }

  private def add(group: UnsafeRow, row: UnsafeRow): Unit = {
    val known = merged.get(group)
    if (known == null) {
      val first = row.copy()
      bytes += first.getSizeInBytes + group.getSizeInBytes + PartialMerger.EntryOverhead
      merged.put(group.copy(), first)
      if (!groupIsKey) keep(row, first)
    } else try merge.into(known, joined(known, row)) catch {
      case _: RowError => keep(row, row.copy())
    }
  }

  private def keep(row: UnsafeRow, copy: UnsafeRow): Unit = {
    val key = keyOf(row)
    var rows = others.get(key)
    if (rows == null) {
      rows = new ArrayBuffer[UnsafeRow](4)
      others.put(key.copy(), rows)
    }
    bytes += row.getSizeInBytes + PartialMerger.EntryOverhead
    rows += copy
  }

  private def unordered: Iterator[InternalRow] = {
    val alone = others.values().iterator().asScala.flatMap(_.iterator)
    if (groupIsKey) merged.values().iterator().asScala ++ alone else alone
  }

  /** In the order of the keys' bytes, as far as eight bytes behind their common prefix tell keys apart. */
  private def ordered: Iterator[InternalRow] = {
    val keys = (if (groupIsKey) merged else others).keySet().toArray(new Array[UnsafeRow](0))
    val size = if (keys.isEmpty) 0 else keys(0).getSizeInBytes
    val common = keys.foldLeft(size)((n, key) => KeyBytes.commonPrefix(keys(0), key, n))
    val order = SparkRadixSort.sort(keys.length, i => KeyBytes.eightBytes(keys(i), common))
    Iterator.range(0, keys.length).flatMap { n => rowsOf(keys(order.position(n))) }
  }

  private def rowsOf(key: UnsafeRow): Iterator[InternalRow] =
    if (!groupIsKey) others.get(key).iterator
    else {
      val one = Iterator.single(merged.get(key))
      if (others.isEmpty || !others.containsKey(key)) one else one ++ others.get(key).iterator
    }
}

object PartialMerger {
  /** Bytes that a map entry takes on the heap besides its rows: objects, headers, references. */
  private val EntryOverhead = 160

  /** The fold's merge, on pairs of rows of the layout; it writes into the state columns of the first. */
  private def mergeInPlace(fold: AggregateFold, layout: PartialLayout): UserExpression = {
    val right = layout.copy(input = layout.input.map(_.newInstance()))
    val columns = AttributeMap(fold.state.zip(layout.state) ++ fold.right.zip(right.state))
    val merge = fold.merge.get.map(_.transform { case a: AttributeReference => columns.getOrElse(a, a) })
    new UserExpression(Seq.fill(layout.groupCount)(NoOp) ++ merge :+ NoOp, layout.input ++ right.input)
  }
}
