package org.apache.spark.sql.keyfold.spark

import java.io.InputStream

import org.apache.spark.Partition
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.paths.SparkPath
import org.apache.spark.rdd.{InputFileBlockHolder, UnionPartition}
import org.apache.spark.sql.execution.datasources.{CodecStreams, FilePartition, PartitionedFile}
import org.apache.spark.unsafe.types.UTF8String

/** The files that a task reads. */
object SparkInputFiles {
  /** Those of a partition. Directories that fill different columns are read side by side, as a union. */
  def of(split: Partition): Seq[PartitionedFile] = split match {
    case partition: FilePartition => partition.files.toSeq
    case union: UnionPartition[_] => of(union.parentPartition)
    case _ => Nil
  }

  /** The URL of the file that the current row came from; empty where rows come from no file. */
  def currentUrl: UTF8String = InputFileBlockHolder.getInputFilePath

  /** Where in that file the part begins that this task reads. */
  def currentOffset: Long = InputFileBlockHolder.getStartOffset

  /** Opens a file by its URL, decompressed as its extension says; it is closed when the task ends. */
  def open(url: String): InputStream =
    CodecStreams.createInputStreamWithCloseResource(SparkHadoopUtil.get.conf, path(url))

  /** Opens a file by its URL at a byte. */
  def openAt(url: String, offset: Long): InputStream = {
    val file = path(url).getFileSystem(SparkHadoopUtil.get.conf).open(path(url))
    file.seek(offset)
    file
  }

  private def path(url: String) = SparkPath.fromUrlString(url).toPath
}
