package org.apache.spark.sql.keyfold.rows.side_output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The side output of a row: what `InternalColumns.SideOutput` holds for a row that is not folded, null for
 * all others. Fields that a kind does not have are null; times are microseconds since the epoch.
 */
object SideOutput {
  /**
   * A row that can't be used: `reason`, `raw`, `stream`, and where known `cause`, `file`, `line` or `byte`,
   * or `topic`, `partition` and `offset`.
   */
  val Rejected: UTF8String = UTF8String.fromString("rejected")
  /**
   * A row that arrived after its windows had closed: also `event_time`, `watermark`, the number of windows
   * it `missed`, when the newest of them ended (`last_end`), and the first hundred of them.
   */
  val Late: UTF8String = UTF8String.fromString("late")
  /**
   * A late row that is replayed, on its way to the state: `raw`, `stream`, `event_time`, and the
   * `watermark` for which it was late.
   */
  val Replayed: UTF8String = UTF8String.fromString("replayed")
  /** Rows that a `step` has dropped: their `count`, or one row with `raw`. */
  val Duplicate: UTF8String = UTF8String.fromString("duplicate")
  /** Partial matches that a pattern's `limit` has dropped: their `count`. */
  val DroppedPartial: UTF8String = UTF8String.fromString("dropped_partial")
  /**
   * A file that is rejected as a whole: `file`, `stream`, the `count` of its rows in one partition, and
   * from one of those `reason` and `raw`.
   */
  val File: UTF8String = UTF8String.fromString("file")

  private val window = new StructType().add("start", LongType).add("end", LongType)
  val schema: StructType = new StructType()
    .add("kind", StringType).add("reason", StringType).add("raw", StringType).add("stream", StringType)
    .add("cause", StringType).add("file", StringType).add("line", LongType).add("byte", LongType)
    .add("event_time", LongType).add("watermark", LongType).add("missed", LongType).add("last_end", LongType)
    .add("windows", ArrayType(window, containsNull = false)).add("step", StringType).add("count", LongType)
    .add("topic", StringType).add("partition", IntegerType).add("offset", LongType)

  private def at(field: String): Int = schema.fieldIndex(field)
  private val (kindAt, reasonAt, rawAt, streamAt) = (at("kind"), at("reason"), at("raw"), at("stream"))
  private val (causeAt, fileAt, lineAt, byteAt) = (at("cause"), at("file"), at("line"), at("byte"))
  private val (eventTimeAt, watermarkAt, missedAt) = (at("event_time"), at("watermark"), at("missed"))
  private val (lastEndAt, windowsAt) = (at("last_end"), at("windows"))
  private val (stepAt, countAt) = (at("step"), at("count"))
  private val (topicAt, partitionAt, offsetAt) = (at("topic"), at("partition"), at("offset"))

  /** A late row lists at most this many of the windows it missed. */
  val MaxWindows = 100

  def attribute(): AttributeReference = AttributeReference(InternalColumns.SideOutput, schema)()
  /** The side output of a row that has none. */
  def none: Literal = Literal(null, schema)

  /** The side output in a column of a row; null if there is none. */
  def of(row: InternalRow, column: Int): InternalRow =
    if (row.isNullAt(column)) null else row.getStruct(column, schema.length)

  def kind(side: InternalRow): UTF8String = side.getUTF8String(kindAt)
  def raw(side: InternalRow): String = if (hasRaw(side)) side.getString(rawAt) else null
  def isReplayed(side: InternalRow): Boolean = kind(side) == Replayed
  def isLate(side: InternalRow): Boolean = kind(side) == Late
  def isDuplicate(side: InternalRow): Boolean = kind(side) == Duplicate
  def isDroppedPartial(side: InternalRow): Boolean = kind(side) == DroppedPartial
  def isFile(side: InternalRow): Boolean = kind(side) == File
  /** A rejected row, and not a count of them. */
  def isRejectedRow(side: InternalRow): Boolean = kind(side) == Rejected && side.isNullAt(countAt)
  def hasRaw(side: InternalRow): Boolean = !side.isNullAt(rawAt)
  def hasReason(side: InternalRow): Boolean = !side.isNullAt(reasonAt)
  def reason(side: InternalRow): String = if (hasReason(side)) side.getString(reasonAt) else ""
  def stream(side: InternalRow): Option[String] = Option(side.getUTF8String(streamAt)).map(_.toString)
  def file(side: InternalRow): String = side.getString(fileAt)
  /** How many rejected rows it stands for: one, unless it only counts them. */
  def rejectedRows(side: InternalRow): Long = if (side.isNullAt(countAt)) 1L else count(side)
  /** The watermark for which a row was late. */
  def watermark(side: InternalRow): Long = side.getLong(watermarkAt)
  def count(side: InternalRow): Long = side.getLong(countAt)
  /** Whether it counts dropped rows of one key, to be added up by the step that follows. */
  def isPartialCount(side: InternalRow): Boolean = kind(side) == Duplicate && side.isNullAt(stepAt)

  private def create(kind: UTF8String): GenericInternalRow = {
    val side = new GenericInternalRow(schema.length)
    side.update(kindAt, kind)
    side
  }
  private def text(value: String): UTF8String = UTF8String.fromString(value)
  private def set(side: GenericInternalRow, reason: String, raw: String, stream: Option[String]): Unit = {
    side.update(reasonAt, text(reason))
    side.update(rawAt, text(raw))
    side.update(streamAt, stream.map(text).orNull)
  }

  def rejected(reason: String, raw: String, stream: Option[String], cause: Option[String] = None,
      location: Option[RowLocation] = None): InternalRow = {
    val side = create(Rejected)
    set(side, reason, raw, stream)
    side.update(causeAt, cause.map(text).orNull)
    location.foreach {
      case FileLocation(file, line, byte) =>
        side.update(fileAt, text(file))
        side.update(lineAt, line.orNull)
        side.update(byteAt, byte.orNull)
      case MessageLocation(topic, partition, offset) =>
        side.update(topicAt, topic)
        side.update(partitionAt, partition)
        side.update(offsetAt, offset)
    }
    side
  }

  /** Rejected rows that are not kept, of which this was the reason of one. */
  def rejectedCount(reason: String, stream: Option[String], count: Long): InternalRow = {
    val side = create(Rejected)
    set(side, reason, null, stream)
    side.update(countAt, count)
    side
  }

  /** A row that missed `missed` windows, of which the newest ended at `lastEnd`. */
  def late(reason: String, raw: String, stream: Option[String], time: Long, watermark: Long, missed: Long,
      windows: Seq[(Long, Long)], lastEnd: Long): InternalRow = {
    val side = create(Late)
    set(side, reason, raw, stream)
    side.update(eventTimeAt, time)
    side.update(watermarkAt, if (watermark == EventTime.NoWatermark) null else watermark)
    setMissed(side, missed, windows, lastEnd)
    side
  }

  private def setMissed(
      side: GenericInternalRow, missed: Long, windows: Seq[(Long, Long)], lastEnd: Long): Unit = {
    side.update(missedAt, missed)
    side.update(lastEndAt, lastEnd)
    val listed = windows.take(MaxWindows).map { case (start, end) => InternalRow(start, end) }
    side.update(windowsAt, new GenericArrayData(listed))
  }

  def replayed(raw: String, stream: Option[String], time: Long, watermark: Long): InternalRow = {
    val side = create(Replayed)
    set(side, null, raw, stream)
    side.update(eventTimeAt, time)
    side.update(watermarkAt, watermark)
    side
  }

  /** The late row that a replayed row is again, because the windows it missed are no longer kept. */
  def expiredReplay(replayed: InternalRow, windows: Seq[(Long, Long)]): InternalRow = {
    val side = create(Late)
    set(side, "replayed after its windows were no longer kept", raw(replayed), stream(replayed))
    side.update(eventTimeAt, replayed.getLong(eventTimeAt))
    side.update(watermarkAt, watermark(replayed))
    setMissed(side, windows.length, windows, windows.map(_._2).max)
    side
  }

  /** One row that a step has dropped, as it was. */
  def duplicate(step: String, raw: String): InternalRow = duplicates(text(step), text(raw), 1)
  /** How many rows a step has dropped. */
  def duplicates(step: String, count: Long): InternalRow = duplicates(text(step), null, count)
  def partialCount(count: Long): InternalRow = duplicates(null, null, count)
  private def duplicates(step: UTF8String, raw: UTF8String, count: Long): InternalRow = {
    val side = create(Duplicate)
    side.update(stepAt, step)
    side.update(rawAt, raw)
    side.update(countAt, count)
    side
  }

  def droppedPartials(count: Long): InternalRow = {
    val side = create(DroppedPartial)
    side.update(countAt, count)
    side
  }

  /**
   * A part of a rejected file with `count` rows. One part of each file also has the reason and the file's
   * first lines.
   */
  def rejectedFile(
      file: String, stream: Option[String], count: Long, reason: String = null,
      raw: String = null): InternalRow = {
    val side = create(File)
    set(side, reason, raw, stream)
    side.update(fileAt, text(file))
    side.update(countAt, count)
    side
  }
}
