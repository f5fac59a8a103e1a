package org.apache.spark.sql.keyfold.state

import java.nio.ByteBuffer
import java.util.{Comparator, HashMap}

import org.apache.spark.sql.catalyst.InternalRow

/** What identifies the rows of a retracting stream that come from a table's changelog. */
trait IdentifiedRows extends Serializable {
  /** Below zero for a retraction. */
  def weight(row: InternalRow): Int
  def hasId(row: InternalRow): Boolean
  /** The id of the upstream row. */
  def id(row: InternalRow): ByteBuffer
  /** The order of the upstream row's changes. */
  def change(row: InternalRow): Long
}

/**
 * The columns by which a table's processor recognizes retractions, -1 for one that rows don't have: the
 * weight, the id and the order of changes of a row that comes through the shuffle, and the id of a row that
 * is retained. `ignoresUnknown`: what is retracted need not be there.
 */
case class RetractionLayout(
    weightAt: Int, idAt: Int, changeAt: Int, retainedIdAt: Int, ignoresUnknown: Boolean = false)
    extends IdentifiedRows {
  def retracting: Boolean = weightAt >= 0
  def hasIds: Boolean = idAt >= 0
  override def weight(row: InternalRow): Int = row.getInt(weightAt)
  override def hasId(row: InternalRow): Boolean = hasIds && !row.isNullAt(idAt)
  override def id(row: InternalRow): ByteBuffer = ByteBuffer.wrap(row.getBinary(idAt))
  override def change(row: InternalRow): Long = row.getLong(changeAt)
  /** The id of a retained row; null if it has none. */
  def retainedId(row: InternalRow): ByteBuffer =
    if (!hasIds || row.isNullAt(retainedIdAt)) null else ByteBuffer.wrap(row.getBinary(retainedIdAt))
}

/**
 * What a batch does to one upstream row, as seen in one group: the retraction of the row that was there
 * before the batch, or null, and the row that is there after it, or null.
 */
case class RowChange(retraction: InternalRow, upsert: InternalRow)

/**
 * What the rows of a batch, all of which have ids, do to each upstream row. A row and retractions of it
 * arrive in any order. They are applied by the order of the upstream changes; of one change, the retraction
 * of the old row comes before the new row. The last one decides, whatever the other columns say: an upstream
 * table that ran a batch again may retract a row with other bytes than it had published.
 */
class RowChanges(rows: Iterable[InternalRow], layout: IdentifiedRows) {
  private val byId = new HashMap[ByteBuffer, RowChange]
  private val order: Comparator[InternalRow] = (x, y) => {
    val byChange = java.lang.Long.compare(layout.change(x), layout.change(y))
    if (byChange != 0) byChange else Integer.compare(layout.weight(x), layout.weight(y))
  }

  {
    val sorted = rows.toArray
    java.util.Arrays.sort(sorted, order)
    sorted.foreach(add)
  }

  private def add(row: InternalRow): Unit = {
    val (id, retracts) = (layout.id(row), layout.weight(row) < 0)
    val before = byId.get(id)
    val first = if (before == null && retracts) row else if (before == null) null else before.retraction
    byId.put(id, RowChange(first, if (retracts) null else row))
  }

  def isEmpty: Boolean = byId.isEmpty
  /** Whether a row is retracted that was there before the batch. */
  def retracts: Boolean = retractions.nonEmpty
  /** Whether the batch replaces or removes the upstream row with this id, which may be null. */
  def touches(id: ByteBuffer): Boolean = id != null && byId.containsKey(id)
  /** Whether a row of the batch is there after it. */
  def isLeft(row: InternalRow): Boolean = byId.get(layout.id(row)).upsert eq row
  /** The retractions of rows that were there before the batch, by id. */
  def retractions: Iterator[(ByteBuffer, InternalRow)] = {
    import scala.jdk.CollectionConverters._
    byId.asScala.iterator.collect { case (id, c) if c.retraction != null => id -> c.retraction }
  }
}
