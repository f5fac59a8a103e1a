package org.apache.spark.sql.keyfold.spark.scan

import java.io.InputStream

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.Partition
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.paths.SparkPath
import org.apache.spark.rdd.{InputFileBlockHolder, UnionPartition}
import org.apache.spark.sql.execution.datasources.{CodecStreams, FilePartition, FileStatusWithMetadata}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.unsafe.types.UTF8String

/** A part of a file that a task reads, by its URL and its first byte. */
case class FileBlock(url: String, start: Long)

/** The files that a task reads. */
object SparkInputFiles {
  /** In what Spark carries along with a file: its place among the files of the batch. */
  private val Rank = "keyfold.rank"

  /** A file as a plan lists it, with its place among the files of the batch. */
  def ranked(file: FileStatus, rank: Int): FileStatusWithMetadata =
    FileStatusWithMetadata(file, Map(Rank -> rank))
  def rank(file: PartitionedFile): Option[Int] =
    file.otherConstantMetadataColumnValues.get(Rank).map(_.asInstanceOf[Int])

  def block(file: PartitionedFile): FileBlock = FileBlock(file.urlEncodedPath, file.start)
  /** The one that the current row came from. */
  def currentBlock: FileBlock = FileBlock(currentUrl.toString, currentOffset)

  /** Which input of a union a partition is of; several numbers where unions are nested. */
  def branch(split: Partition): Seq[Int] = split match {
    case union: UnionPartition[_] => union.parentRddIndex +: branch(union.parentPartition)
    case _ => Nil
  }

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
