package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError, StateAndRow, UserExpression}
import org.apache.spark.sql.keyfold.spark.memory.SparkRadixSort

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
  private val both = new StateAndRow
  private val width = layout.input.length
  private val merged = new RowMap(width)
  /** Side outputs, and rows that stay by themselves. */
  private val (unkeyed, alone) = (new ArrayBuffer[UnsafeRow], new ArrayBuffer[UnsafeRow])
  private var bytesAlone = 0L

  def apply(
      rows: Iterator[InternalRow],
      sort: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    while (rows.hasNext && merged.bytes + bytesAlone <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow]
      val group = groupOf(row)
      if (hasNullKey(group)) keep(row, unkeyed)
      else if (row.isNullAt(sideOutput)) add(group, row)
      else keep(row, alone)
    }
    if (rows.hasNext) sort(unkeyed.iterator ++ mergedRows ++ alone ++ rows) else unkeyed.iterator ++ ordered
  }

  private def hasNullKey(group: UnsafeRow): Boolean = {
    var i = 0
    while (i < layout.keyCount) { if (group.isNullAt(i)) return true; i += 1 }
    false
  }

  private def add(group: UnsafeRow, row: UnsafeRow): Unit = {
    val known = merged.get(group)
    if (known == null) merged.add(group, row)
    else try merge.into(known, both.of(known, row)) catch { case _: RowError => keep(row, alone) }
  }

  private def keep(row: UnsafeRow, rows: ArrayBuffer[UnsafeRow]): Unit = {
    rows += row.copy()
    bytesAlone += row.getSizeInBytes + KeyGrouping.RowOverhead
  }

  private def mergedRows: Iterator[UnsafeRow] =
    merged.records.iterator.map(merged.value(_, new UnsafeRow(width)))

  /** In the order of the keys' bytes, as far as eight bytes behind their common prefix tell keys apart. */
  private def ordered: Iterator[InternalRow] =
    if (groupIsKey && alone.isEmpty) byKey
    else {
      val all = (mergedRows ++ alone).toArray
      new AdjacentRows(layout.keys, layout.input)(all, commonPrefix(all.iterator.map(keyOf(_))))
    }

  /** Where each key has one row. */
  private def byKey: Iterator[UnsafeRow] = {
    val records = merged.records
    val (key, row) = (new UnsafeRow(layout.keyCount), new UnsafeRow(width))
    val common = commonPrefix(records.iterator.map(merged.key(_, key)))
    val order =
      SparkRadixSort.sort(records.length, i => KeyBytes.eightBytes(merged.key(records(i), key), common))
    Iterator.range(0, records.length).map(n => merged.value(records(order.position(n)), row))
  }

  /** How many bytes all keys begin with. */
  private def commonPrefix(keys: Iterator[UnsafeRow]): Int =
    if (keys.isEmpty) 0
    else {
      val first = keys.next().copy()
      keys.foldLeft(first.getSizeInBytes)((n, key) => KeyBytes.commonPrefix(first, key, n))
    }
}

object PartialMerger {
  /** The fold's merge, on pairs of rows of the layout; it writes into the state columns of the first. */
  private def mergeInPlace(fold: AggregateFold, layout: PartialLayout): UserExpression = {
    val right = layout.copy(input = layout.input.map(_.newInstance()))
    val columns = AttributeMap(fold.state.zip(layout.state) ++ fold.right.zip(right.state))
    val merge = fold.merge.get.map(_.transform { case a: AttributeReference => columns.getOrElse(a, a) })
    new UserExpression(Seq.fill(layout.groupCount)(NoOp) ++ merge :+ NoOp, layout.input ++ right.input)
  }
}
