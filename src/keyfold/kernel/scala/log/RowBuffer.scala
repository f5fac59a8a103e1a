package org.apache.spark.sql.keyfold.log

import scala.collection.mutable.ArrayBuffer

import org.apache.parquet.hadoop.ParquetWriter

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.keyfold.spark.SparkParquet

/** A file of a log, as its manifest lists it. */
case class Part(path: String, kind: String, rows: Long, bytes: Long, checksum: String)

/** Rows of one kind that a task has: few of them travel to the driver, many are a part of their own. */
case class TaskRows(kind: String, few: Array[Array[Byte]], part: Option[Part])

/**
 * Takes the rows of one kind in one partition, in order. They are kept while they are few, so that a small
 * batch needs one file for all partitions; once they are many, the task writes them to a file itself.
 */
class RowBuffer(kind: String, format: SparkParquet, directory: String, name: String) {
  private val kept = ArrayBuffer.empty[Array[Byte]]
  private var keptBytes, rows = 0L
  private var writer: ParquetWriter[InternalRow] = _
  private lazy val file = new PartFile(s"$directory/$name")

  def add(row: UnsafeRow): Unit = {
    rows += 1
    if (writer != null) writer.write(row)
    else {
      kept += RowBuffer.bytes(row)
      keptBytes += row.getSizeInBytes
      if (keptBytes > RowBuffer.MaxKeptBytes) spill()
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

  /** Writes rows that tasks have kept as one part. */
  def write(kind: String, kept: Iterable[Array[Byte]], format: SparkParquet, directory: String): Part = {
    val name = s"part-$kind.parquet"
    val file = new PartFile(s"$directory/$name")
    PartFile.createDirectory(directory)
    val writer = format.writer(file)
    try rows(kept, format).foreach(writer.write) finally writer.close()
    Part(name, kind, kept.size, file.bytes, file.checksum)
  }
}
