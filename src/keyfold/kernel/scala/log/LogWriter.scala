package org.apache.spark.sql.keyfold.log

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.ArrivalOrder
import org.apache.spark.sql.keyfold.rows.{RejectedFiles, SideOutput}
import org.apache.spark.sql.keyfold.spark.{SparkDatasets, SparkParquet}
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
      "duplicate" -> counts.duplicate).asJava,
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
    new BatchParts(writer, outputs.toSeq).written
  }
}

object LogWriter {
  val SideKinds: Seq[String] = Seq("late", "rejected", "duplicate")
  val Kinds: Seq[String] = "change" +: SideKinds
}

/** How the rows of a table, or of a stream, become parts. */
private case class PartFormats(layout: LogRowLayout, changes: SparkParquet, sideOutputs: SparkParquet)

private object PartFormats {
  def apply(df: DataFrame): PartFormats = {
    val (session, layout) = (SparkDatasets.session(df), LogRowLayout(df.schema))
    PartFormats(layout, SparkParquet(session, layout.changeSchema), SparkParquet(session, SideOutput.schema))
  }
}

/** The columns of what a log records: a change, or a row of a stream, and beside it the side output. */
case class LogRowLayout(schema: StructType) {
  val sideOutputAt: Int = schema.fieldIndex(InternalColumns.SideOutput)
  /** The order of arrival, which rows of a stream have; below zero for changes of a table. */
  val arrivalAt: Int = schema.fieldNames.indexOf(InternalColumns.Arrival)
  private val changed = schema.indices.filter(i => i != sideOutputAt && i != arrivalAt)

  /** Where a row of a stream belongs among the rows of its batch. */
  def place(row: InternalRow): Int =
    if (arrivalAt < 0) 0 else ArrivalOrder.placeOf(row.getLong(arrivalAt))
  def changeSchema: StructType = StructType(changed.map(schema(_)))
  def change: Seq[Expression] = changed.map(i => BoundReference(i, schema(i).dataType, nullable = true))
  def sideOutput: Seq[Expression] = SideOutput.schema.indices.map { i =>
    BoundReference(i, SideOutput.schema(i).dataType, nullable = true)
  }
}

private class TaskWriter(
    formats: PartFormats,
    val directory: String,
    keepChanges: Boolean) extends ((TaskContext, Iterator[InternalRow]) => TaskOutput) with Serializable {
  def changes: SparkParquet = formats.changes
  def sideOutputs: SparkParquet = formats.sideOutputs
  private def layout = formats.layout

  /** Whether the parts are in the order of arrival. */
  def inOrder: Boolean = layout.arrivalAt >= 0

  override def apply(context: TaskContext, rows: Iterator[InternalRow]): TaskOutput = {
    val task = s"${f"${context.partitionId()}%05d"}-${context.taskAttemptId()}"
    def buffer(kind: String, format: SparkParquet) =
      new RowBuffer(kind, format, directory, s"part-$kind-$task.parquet")
    val change = new PlacedRows(changes, directory, task)
    val Seq(late, rejected, duplicate) = LogWriter.SideKinds.map(buffer(_, sideOutputs))
    val buffers = Seq(late, rejected, duplicate)
    context.addTaskFailureListener { (_, _) =>
      change.discard()
      buffers.foreach(_.discard())
    }
    val files = mutable.ArrayBuffer.empty[Array[Byte]]
    val counts = new SideOutputCounts
    val changeOf = UnsafeProjection.create(layout.change)
    val sideOf = UnsafeProjection.create(layout.sideOutput)
    val keepSideOutputs = directory != null
    rows.foreach { row =>
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
      } else if (SideOutput.isFile(side)) {
        if (keepSideOutputs) files += RowBuffer.bytes(sideOf(side))
      }
      else {
        counts.addRejected(side)
        if (keepSideOutputs && SideOutput.hasRaw(side)) rejected.add(sideOf(side))
      }
    }
    TaskOutput(change.close() ++ buffers.map(_.close()), files.toArray, counts.result)
  }
}

/** The parts of a batch: those of its tasks, and one of each kind for the rows that tasks have sent. */
private class BatchParts(writer: TaskWriter, outputs: Seq[TaskOutput]) {
  private val counts = new SideOutputCounts
  outputs.foreach(output => counts.add(output.counts))

  def written: WrittenBatch = {
    val files = rejectedFiles
    val sent = outputs.flatMap(_.rows).groupBy(_.kind)
    val parts = LogWriter.Kinds.flatMap { kind =>
      val rows = sent.getOrElse(kind, Nil)
      if (kind == "change" && writer.inOrder) ordered(rows)
      else {
        val few = rows.flatMap(_.few) ++ (if (kind == "rejected") files else Nil)
        rows.flatMap(_.part) ++ together(kind, few)
      }
    }
    if (parts.nonEmpty) PartFile.sync(writer.directory)
    WrittenBatch(parts, counts.result)
  }

  private def together(kind: String, few: Seq[Array[Byte]], number: Int = 0): Option[Part] = {
    val format = if (kind == "change") writer.changes else writer.sideOutputs
    Option.when(few.nonEmpty)(RowBuffer.write(kind, few, format, writer.directory, number))
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
    val whole = RejectedFiles.merged(RowBuffer.rows(outputs.flatMap(_.files), writer.sideOutputs))
    whole.foreach(counts.addRejectedFile)
    val project = UnsafeProjection.create(SideOutput.schema)
    whole.map(side => RowBuffer.bytes(project(side)))
  }
}
