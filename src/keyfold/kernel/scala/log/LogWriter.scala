package org.apache.spark.sql.keyfold.log

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.ArrivalOrder
import org.apache.spark.sql.keyfold.rows.side_output.{RejectedFiles, SideOutput}
import org.apache.spark.sql.keyfold.spark.formats.SparkParquet
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.types._

/** What a batch has written: its parts, relative to their directory, and the counts of its rows. */
case class WrittenBatch(parts: Seq[Part], counts: RowCounts) {
  /** As Python reads it, once it is JSON. */
  def asJava: java.util.Map[String, Any] = Map[String, Any](
    "parts" -> parts.map { p =>
      Map("path" -> p.path, "kind" -> p.kind, "rows" -> p.rows, "bytes" -> p.bytes, "checksum" -> p.checksum)
        .asJava
    }.asJava,
    "counts" -> Map("change" -> counts.change, "late" -> counts.late, "rejected" -> counts.rejected,
      "duplicate" -> counts.duplicate, "dropped_partial" -> counts.droppedPartial).asJava,
    "reasons" -> counts.reasons.map { r =>
      Map("kind" -> r.kind, "rows" -> r.rows, "example" -> r.example).asJava
    }.asJava).asJava
}

/** What one task returns: the rows of each kind, and the files that it rejected parts of. */
case class TaskOutput(rows: Seq[TaskRows], files: Array[Array[Byte]], counts: RowCounts)

/**
 * Runs the batches of a table and writes their changes and side outputs as parts of the table's log. Tasks
 * write the parts, so that no single process sees all rows.
 */
class LogWriter {
  // All batches of a query have the same columns: what Parquet needs to know of them is prepared once.
  private var prepared: Option[PartFormats] = None

  /**
   * `keepChanges`: whether anybody is to read them; else they are counted. Without a directory everything is
   * counted and nothing is written.
   */
  def write(df: DataFrame, directory: String, keepChanges: Boolean): WrittenBatch = {
    val formats = prepared.filter(_.layout.schema == df.schema).getOrElse(PartFormats(df))
    prepared = Some(formats)
    val writer = new TaskWriter(formats, directory, keepChanges && directory != null)
    val outputs = mutable.ArrayBuffer.empty[TaskOutput]
    SparkDatasets.runJob(df, writer, (_: Int, output: TaskOutput) => outputs += output)
    new BatchParts(formats, directory, outputs.toSeq).written
  }
}

object LogWriter {
  val SideKinds: Seq[String] = Seq("late", "rejected", "duplicate")
  val Kinds: Seq[String] = "change" +: SideKinds
}

/** How the rows of a table, or of a stream, become parts. */
private[keyfold] case class PartFormats(
    layout: LogRowLayout, changes: SparkParquet, sideOutputs: SparkParquet)

private[keyfold] object PartFormats {
  def apply(df: DataFrame): PartFormats = {
    val (session, layout) = (SparkDatasets.session(df), LogRowLayout(df.schema))
    // Several tables read the rows of a stream, and find keys by their numbers in a dictionary.
    val changes = SparkParquet(session, layout.changeSchema, dictionaries = layout.isStream)
    PartFormats(layout, changes, SparkParquet(session, SideOutput.schema))
  }
}

/** The columns of what a log records: a change, or a row of a stream, and beside it the side output. */
case class LogRowLayout(schema: StructType) {
  val sideOutputAt: Int = schema.fieldIndex(InternalColumns.SideOutput)
  /** The order of arrival, which rows of a stream have; below zero for changes of a table. */
  val arrivalAt: Int = schema.fieldNames.indexOf(InternalColumns.Arrival)
  private val beside = InternalColumns.besideChange.map(schema.fieldNames.indexOf(_))
  private val changed = schema.indices.filterNot(beside.contains)

  /** Whether the rows are those of a stream, whose parts are in the order of arrival. */
  def isStream: Boolean = arrivalAt >= 0

  /** Where a row of a stream belongs among the rows of its batch. */
  def place(row: InternalRow): Int =
    if (arrivalAt < 0) 0 else ArrivalOrder.placeOf(row.getLong(arrivalAt))
  def changeSchema: StructType = StructType(changed.map(schema(_)))
  def change: Seq[Expression] = changed.map(i => BoundReference(i, schema(i).dataType, nullable = true))
  def sideOutput: Seq[Expression] = SideOutput.schema.indices.map { i =>
    BoundReference(i, SideOutput.schema(i).dataType, nullable = true)
  }
}

/** Writes the parts of one task's rows, in a job of the log's own. */
private class TaskWriter(formats: PartFormats, directory: String, keepChanges: Boolean)
    extends ((TaskContext, Iterator[InternalRow]) => TaskOutput) with Serializable {
  override def apply(context: TaskContext, rows: Iterator[InternalRow]): TaskOutput = {
    val log = new TaskLog(formats, directory, keepChanges, context.partitionId(), context.taskAttemptId())
    context.addTaskFailureListener((_, _) => log.discard())
    rows.foreach(log.add)
    log.close()
  }
}

/** Takes the rows of one task, one by one: changes and side outputs. Without a directory it only counts. */
class TaskLog(
    formats: PartFormats, directory: String, keepChanges: Boolean, partition: Int, attempt: Long) {
  private val layout = formats.layout
  private val task = s"${f"$partition%05d"}-$attempt"
  private val change = new PlacedRows(formats.changes, directory, task)
  private val sides = LogWriter.SideKinds.map { kind =>
    new RowBuffer(kind, formats.sideOutputs, directory, s"part-$kind-$task.parquet")
  }
  private val Seq(late, rejected, duplicate) = sides
  private val files = mutable.ArrayBuffer.empty[Array[Byte]]
  private val counts = new SideOutputCounts
  // Made for the first row that needs them: most tasks have no side output, and code is generated for each.
  private lazy val changeOf = UnsafeProjection.create(layout.change)
  private lazy val sideOf = UnsafeProjection.create(layout.sideOutput)
  private val keepSideOutputs = directory != null

  def add(row: InternalRow): Unit = {
    val side = SideOutput.of(row, layout.sideOutputAt)
    if (side == null) {
      counts.addChange()
      if (keepChanges) change.add(changeOf(row), layout.place(row))
    } else if (SideOutput.isLate(side)) {
      counts.addLate()
      if (keepSideOutputs) late.add(sideOf(side))
    } else if (SideOutput.isDuplicate(side)) {
      counts.addDuplicates(side)
      if (keepSideOutputs && SideOutput.hasRaw(side)) duplicate.add(sideOf(side))
    } else if (SideOutput.isDroppedPartial(side)) {
      counts.addDroppedPartials(side)
    } else if (SideOutput.isFile(side)) {
      if (keepSideOutputs) files += RowBuffer.bytes(sideOf(side))
    } else {
      counts.addRejected(side)
      if (keepSideOutputs && SideOutput.hasRaw(side)) rejected.add(sideOf(side))
    }
  }

  def close(): TaskOutput = TaskOutput(change.close() ++ sides.map(_.close()), files.toArray, counts.result)

  /** Lets go of unfinished files, which no manifest will list. */
  def discard(): Unit = {
    change.discard()
    sides.foreach(_.discard())
  }
}

/** The parts of a batch: those of its tasks, and one of each kind for the rows that tasks have sent. */
private[keyfold] class BatchParts(formats: PartFormats, directory: String, outputs: Seq[TaskOutput]) {
  private val counts = new SideOutputCounts
  outputs.foreach(output => counts.add(output.counts))

  def written: WrittenBatch = {
    val files = rejectedFiles
    val sent = outputs.flatMap(_.rows).groupBy(_.kind)
    val parts = LogWriter.Kinds.flatMap { kind =>
      val rows = sent.getOrElse(kind, Nil)
      if (kind == "change" && formats.layout.isStream) ordered(rows)
      else {
        val few = rows.flatMap(_.few) ++ (if (kind == "rejected") files else Nil)
        rows.flatMap(_.part) ++ together(kind, few)
      }
    }
    if (parts.nonEmpty) PartFile.sync(directory)
    WrittenBatch(parts, counts.result)
  }

  private def together(kind: String, few: Seq[Array[Byte]], number: Int = 0): Option[Part] = {
    val format = if (kind == "change") formats.changes else formats.sideOutputs
    Option.when(few.nonEmpty)(RowBuffer.write(kind, few, format, directory, number))
  }

  /** The rows of a stream in the order of their arrival, which the manifest's list of parts keeps. */
  private def ordered(rows: Seq[TaskRows]): Seq[Part] = {
    val (parts, few) = (mutable.ArrayBuffer.empty[Part], mutable.ArrayBuffer.empty[Array[Byte]])
    def flush(): Unit = {
      parts ++= together("change", few.toSeq, parts.length)
      few.clear()
    }
    rows.sortBy(_.place).foreach { placed =>
      if (placed.part.isDefined) flush()
      parts ++= placed.part
      few ++= placed.few
    }
    flush()
    parts.toSeq
  }

  /** Each task has counted the rows of a file that it read, and one of them has the reason. */
  private def rejectedFiles: Seq[Array[Byte]] = {
    val whole = RejectedFiles.merged(RowBuffer.rows(outputs.flatMap(_.files), formats.sideOutputs))
    whole.foreach(counts.addRejectedFile)
    lazy val project = UnsafeProjection.create(SideOutput.schema)
    whole.map(side => RowBuffer.bytes(project(side)))
  }
}
