package org.apache.spark.sql.keyfold.log

import scala.collection.mutable.ArrayBuffer

import org.apache.parquet.hadoop.ParquetWriter

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.keyfold.spark.formats.SparkParquet

/** A file of a log, as its manifest lists it. */
case class Part(path: String, kind: String, rows: Long, bytes: Long, checksum: String)

/**
 * Rows of one kind that a task has: few of them travel to the driver, many are a part of their own. `place`
 * orders the rows of a stream's log.
 */
case class TaskRows(kind: String, few: Array[Array[Byte]], part: Option[Part], place: Int = 0)

/**
 * Takes the rows of one kind in one partition, in order. They are kept while they are few, so that a small
 * batch needs one file for all partitions; once they are many, the task writes them to a file itself.
 */
class RowBuffer(
    kind: String,
    format: SparkParquet,
    directory: String,
    name: String,
    maxKeptBytes: Long = RowBuffer.MaxKeptBytes) {
  private val kept = ArrayBuffer.empty[Array[Byte]]
  private var keptBytes, rows = 0L
  private var writer: ParquetWriter[InternalRow] = _
  private lazy val file = new PartFile(s"$directory/$name")

  def isEmpty: Boolean = rows == 0

  /** The size of the rows that travel to the driver. */
  def sentBytes: Long = if (writer == null) keptBytes else 0L

  def add(row: UnsafeRow): Unit = {
    rows += 1
    if (writer != null) writer.write(row)
    else {
      kept += RowBuffer.bytes(row)
      keptBytes += row.getSizeInBytes
      if (keptBytes > maxKeptBytes) spill()
    }
  }

  private def spill(): Unit = {
    PartFile.createDirectory(directory)
    writer = format.writer(file)
    RowBuffer.rows(kept, format).foreach(writer.write)
    kept.clear()
  }

  def close(): TaskRows =
    if (writer == null) TaskRows(kind, kept.toArray, None)
    else {
      writer.close()
      TaskRows(kind, Array.empty, Some(Part(name, kind, rows, file.bytes, file.checksum)))
    }

  /** Lets go of an unfinished file, which no manifest will list. */
  def discard(): Unit = if (writer != null) try writer.close() catch { case _: Exception => }
}

object RowBuffer {
  val MaxKeptBytes: Long = 128 << 10

  /** A copy of a row's bytes; `getBytes` may return the buffer that the next row is written to. */
  def bytes(row: UnsafeRow): Array[Byte] = row.copy().getBytes

  /** Rows that were kept as bytes; each is valid until the next. */
  def rows(kept: Iterable[Array[Byte]], format: SparkParquet): Iterator[UnsafeRow] = {
    val row = new UnsafeRow(format.schema.length)
    kept.iterator.map { bytes => row.pointTo(bytes, bytes.length); row }
  }

  /** Writes rows that tasks have kept as one part; `number` tells several of a kind apart. */
  def write(
      kind: String,
      kept: Iterable[Array[Byte]],
      format: SparkParquet,
      directory: String,
      number: Int = 0): Part = {
    val name = if (number == 0) s"part-$kind.parquet" else s"part-$kind-$number.parquet"
    val file = new PartFile(s"$directory/$name")
    PartFile.createDirectory(directory)
    val writer = format.writer(file)
    try rows(kept, format).foreach(writer.write) finally writer.close()
    Part(name, kind, kept.size, file.bytes, file.checksum)
  }
}
