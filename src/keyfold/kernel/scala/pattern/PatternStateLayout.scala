package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.state.StructPacking
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A match that is shown until its TTL expires: its id, when it expires, and its row as followers know it. */
case class ShownMatchLayout(previousRow: StructType) {
  val schema: StructType =
    new StructType().add("id", StringType).add("until", LongType).add("row", previousRow)

  def apply(id: UTF8String, expiresAt: Long, row: InternalRow): InternalRow =
    new GenericInternalRow(Array[Any](id, expiresAt, row))
  def id(shown: InternalRow): UTF8String = shown.getUTF8String(0)
  def expiresAt(shown: InternalRow): Long = shown.getLong(1)
  def row(shown: InternalRow): InternalRow =
    if (shown.isNullAt(2)) null else shown.getStruct(2, previousRow.length)
}

/**
 * The state of a key: the tick of its timer; the matched rows with their times and ids; the nodes, three ints
 * each; partial and deferred matches, four longs each (`StoredMatches`); and the matches that are shown, if
 * they have a TTL.
 */
case class PatternStateLayout(row: StructType, shown: Option[ShownMatchLayout]) {
  import PatternStateLayout._

  private val rowPacking = StructPacking(row)
  private val shownPacking = shown.map(layout => StructPacking(layout.schema))
  private def longs = ArrayType(LongType, containsNull = false)

  val schema: StructType = new StructType()
    .add("timer", LongType)
    .add("rows", rowPacking.dataType)
    .add("times", longs)
    .add("row_ids", longs)
    .add("nodes", ArrayType(IntegerType, containsNull = false))
    .add("matches", longs)
    .add("shown", shownPacking.fold(BooleanType: DataType)(_.dataType))

  def timer(stored: InternalRow): Long = stored.getLong(Timer)

  def shownMatches(stored: InternalRow): ArrayBuffer[InternalRow] =
    shownPacking.fold(new ArrayBuffer[InternalRow](0))(_.unpack(stored, Shown))

  /** Puts the stored rows, nodes and matches into an empty matcher. */
  def restore(stored: InternalRow, matcher: Matcher): Unit = {
    val (times, rowIds) = (stored.getArray(Times), stored.getArray(RowIds))
    val rows = rowPacking.unpack(stored, Rows)
    rows.indices.foreach(i => matcher.matched.addRow(rows(i), times.getLong(i), rowIds.getLong(i)))
    StoredNodes.restore(stored.getArray(Nodes).toIntArray(), matcher.matched)
    StoredMatches.restore(stored.getArray(Matches).toLongArray(), matcher)
  }

  def encode(timer: Long, matcher: Matcher, shownMatches: ArrayBuffer[InternalRow]): InternalRow = {
    val (matched, used) = (matcher.matched, new UsedRows(matcher))
    new GenericInternalRow(Array[Any](
      timer,
      rowPacking.pack(ArrayBuffer.from(used.rows.map(matched.rows(_)))),
      UnsafeArrayData.fromPrimitiveArray(used.rows.map(matched.times(_))),
      UnsafeArrayData.fromPrimitiveArray(used.rows.map(matched.rowIds(_))),
      UnsafeArrayData.fromPrimitiveArray(StoredNodes.encode(matched, used)),
      UnsafeArrayData.fromPrimitiveArray(StoredMatches.encode(matcher, used)),
      shownPacking.fold(null: Any)(_.pack(shownMatches))))
  }
}

object PatternStateLayout {
  private val Timer = 0
  private val Rows = 1
  private val Times = 2
  private val RowIds = 3
  private val Nodes = 4
  private val Matches = 5
  private val Shown = 6
}

/** The rows and nodes that partial and deferred matches still refer to, and their numbers in state. */
private class UsedRows(matcher: Matcher) {
  private val matched = matcher.matched
  private val rowNumbers = Array.fill(matched.rowCount)(UsedRows.Unused)
  private val nodeNumbers = Array.fill(matched.nodeCount)(UsedRows.Unused)
  matcher.partials.foreach((group, k) => mark(group.lastNodes(k), group.startRows(k)))
  matcher.deferred.foreach(m => mark(m.lastNode, m.startRow))
  val rows: Array[Int] = renumber(rowNumbers)
  val nodes: Array[Int] = renumber(nodeNumbers)

  def rowNumber(row: Int): Int = rowNumbers(row)
  /** -1 for the node before the first. */
  def nodeNumber(node: Int): Int = if (node < 0) -1 else nodeNumbers(node)

  private def mark(lastNode: Int, startRow: Int): Unit = {
    var node = lastNode
    while (node >= 0 && nodeNumbers(node) == UsedRows.Unused) {
      nodeNumbers(node) = 0
      rowNumbers(matched.row(node)) = 0
      node = matched.previous(node)
    }
    rowNumbers(startRow) = 0
  }

  /** Numbers what is used in its order, and returns it. */
  private def renumber(numbers: Array[Int]): Array[Int] = {
    val used = numbers.indices.filter(numbers(_) != UsedRows.Unused).toArray
    used.indices.foreach(n => numbers(used(n)) = n)
    used
  }
}

private object UsedRows { val Unused = -1 }

/** A node as three ints: the number of its row, its position, and the number of the previous node or -1. */
private object StoredNodes {
  private val Width = 3

  def encode(matched: MatchedRows, used: UsedRows): Array[Int] = used.nodes.flatMap { node =>
    val previous = used.nodeNumber(matched.previous(node))
    Array(used.rowNumber(matched.row(node)), matched.position(node), previous)
  }

  def restore(stored: Array[Int], matched: MatchedRows): Unit =
    stored.indices.by(Width).foreach(i => matched.addNode(stored(i), stored(i + 1), stored(i + 2)))
}

/**
 * Partial and deferred matches, four longs each. A partial match: its position, its enabled transitions, the
 * number of its last node, and that of its first row. A deferred match has no position: `Complete` or
 * `TimedOut` stands there, and its end time in place of the transitions.
 */
private object StoredMatches {
  private val Width = 4
  private val Complete = -1L
  private val TimedOut = -2L

  def encode(matcher: Matcher, used: UsedRows): Array[Long] = {
    val stored = new Array[Long](matcher.length * Width)
    var i = 0
    def add(kind: Long, value: Long, lastNode: Int, startRow: Int): Unit = {
      stored(i) = kind
      stored(i + 1) = value
      stored(i + 2) = used.nodeNumber(lastNode)
      stored(i + 3) = used.rowNumber(startRow)
      i += Width
    }
    matcher.partials.foreach { (group, k) =>
      add(group.position, group.enabled, group.lastNodes(k), group.startRows(k))
    }
    matcher.deferred.foreach { m =>
      add(if (m.timedOut) TimedOut else Complete, m.endTime, m.lastNode, m.startRow)
    }
    stored
  }

  def restore(stored: Array[Long], matcher: Matcher): Unit = stored.indices.by(Width).foreach { i =>
    val (kind, value) = (stored(i), stored(i + 1))
    val (lastNode, startRow) = (stored(i + 2).toInt, stored(i + 3).toInt)
    if (kind >= 0) matcher.partials.add(kind.toInt, value, lastNode, startRow)
    else matcher.deferred.append(Match(lastNode, startRow, value, timedOut = kind == TimedOut))
  }
}
