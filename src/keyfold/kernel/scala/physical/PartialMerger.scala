package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError, UserExpression}

/** Merged rows, each group's in a map until all have come. */
class PartialMerger(fold: AggregateFold, nKeys: Int, nGroup: Int, schema: Seq[Attribute], limit: Long) {
  private val keyOf = UnsafeProjection.create(schema.take(nKeys), schema)
  private val groupOf = if (nGroup == nKeys) keyOf else UnsafeProjection.create(schema.take(nGroup), schema)
  private val sideOutput = schema.length - 1
  // Whether one row stands for all of a key.
  private val single = nGroup == nKeys
  private val merging = {
    val others = schema.map(_.newInstance())
    val left = fold.state.zip(schema.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val right = fold.right.zip(others.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val merge = fold.merge.get.map(_.transform { case a: AttributeReference => left.getOrElse(a.exprId, right.getOrElse(a.exprId, a)) })
    new UserExpression(Seq.fill(nGroup)(NoOp) ++ merge :+ NoOp, schema ++ others)
  }
  private val joined = new JoinedRow
  private val first = new java.util.HashMap[UnsafeRow, UnsafeRow]
  // By key, where a group is less than a key: the first row of each group. And rows that stay by themselves: late or replayed ones, and those that could not be
  // merged, of which the kernel finds out which to reject.
  private val more = new java.util.HashMap[UnsafeRow, ArrayBuffer[UnsafeRow]]
  private var bytes = 0L

  def apply(rows: Iterator[InternalRow], spilled: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    // Rejected rows travel under a null key; they are a group of their own and need no gathering.
    val aside = new ArrayBuffer[InternalRow]
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow]
      val key = keyOf(row)
      if (key.anyNull) { val c = row.copy(); bytes += c.getSizeInBytes; aside += c } else if (row.isNullAt(sideOutput)) add(groupOf(row), row) else apart(row, row.copy())
    }
    if (rows.hasNext) spilled(aside.iterator ++ held ++ rows) else aside.iterator ++ inOrder
  }

  private def add(group: UnsafeRow, row: UnsafeRow): Unit = {
    val known = first.get(group)
    if (known == null) {
      val c = row.copy()
      bytes += c.getSizeInBytes + group.getSizeInBytes + MergePartials.Entry
      first.put(group.copy(), c)
      if (!single) apart(row, c)
    } else try merging.into(known, joined(known, row)) catch {
      case _: RowError => apart(row, row.copy())
    }
  }

  private def apart(row: UnsafeRow, kept: UnsafeRow): Unit = {
    val key = keyOf(row)
    var rows = more.get(key)
    if (rows == null) { rows = new ArrayBuffer[UnsafeRow](4); more.put(key.copy(), rows) }
    bytes += row.getSizeInBytes + MergePartials.Entry
    rows += kept
  }

  private def held: Iterator[InternalRow] = {
    import scala.jdk.CollectionConverters._
    (if (!single) Iterator.empty else first.values().iterator().asScala) ++ more.values().iterator().asScala.flatMap(_.iterator)
  }

  /** By the bytes of the key, as the state store keeps them: neighbours are read and written together. */
  private def inOrder: Iterator[InternalRow] = {
    val keys = (if (!single) more else first).keySet().toArray(new Array[UnsafeRow](0))
    val skip = keys.foldLeft(if (keys.isEmpty) 0 else keys(0).getSizeInBytes)((n, k) => KeyBytes.common(keys(0), k, n))
    val order = KeyBytes.sorted(keys.length, i => KeyBytes.eight(keys(i), skip))
    Iterator.range(0, keys.length).flatMap { n =>
      val key = keys(order.at(n))
      if (!single) more.get(key).iterator
      else {
        val one = Iterator.single(first.get(key))
        if (more.isEmpty || !more.containsKey(key)) one else one ++ more.get(key).iterator
      }
    }
  }
}
