package org.apache.spark.sql.execution.keyfold.log

import scala.util.{Try, Using}

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, BoundReference, Expression, Predicate}
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.spark.scan.SparkInputFiles
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.util.ThreadUtils

/**
 * The parts that one batch of a reader reads, with the upstream batch as partition column. They are looked
 * at when the batch runs and not before: on a restart Spark also asks for the last batch that is done, whose
 * parts may have been removed since.
 */
class ChangeFiles(log: LogDirectory, manifests: => Seq[ChangeManifest], size: => Long) extends FileIndex {
  override val partitionSchema: StructType = new StructType().add(InternalColumns.Batch, LongType)
  override def rootPaths: Seq[Path] = Seq(log.path)
  override def inputFiles: Array[String] = Array.empty
  override def refresh(): Unit = ()
  override def sizeInBytes: Long = size

  override def listFiles(
      partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val filter = partitionFilters.reduceOption(And).map(all => Predicate.createInterpreted(bound(all)))
    val wanted = manifests.filter(m => filter.forall(_.eval(InternalRow(m.batch))))
    val parts = wanted.flatMap(_.parts)
    val files = parts.distinctBy(_.file)
    // Rows arrive by batch, then by part.
    val found = files.zip(all(files)).zipWithIndex.map { case ((part, status), rank) =>
      part.file -> SparkInputFiles.ranked(status, rank)
    }.toMap
    val (ofMany, ofOne) = files.partition(_.merged)
    val own = ofOne.map(_.file).toSet
    // A file that has changes of many batches says itself which row is of which batch.
    val merged = PartitionDirectory(InternalRow(null), ofMany.map(part => found(part.file)))
    val others = wanted.map { m =>
      PartitionDirectory(InternalRow(m.batch), m.parts.map(_.file).filter(own).map(found))
    }
    if (ofMany.isEmpty) others else merged +: others
  }

  /** Many files are looked at side by side: on a remote file system each takes a while. */
  private def all(parts: Seq[ChangePart]): Seq[FileStatus] =
    if (parts.size <= ChangeFiles.Few) parts.map(checked)
    else ThreadUtils.parmap(parts, "keyfold-log", ChangeFiles.Threads)(part => Try(checked(part))).map(_.get)

  /** A part as it was written: with the size and the rows that its manifest says. */
  private def checked(part: ChangePart): FileStatus = {
    val status = log.status(part)
    // A merged file has rows of batches that this reader does not ask for.
    if (!part.merged) checkRows(part, status)
    status
  }

  private def checkRows(part: ChangePart, status: FileStatus): Unit = {
    // Without options it would read Hadoop's settings from their files again for each part.
    val options = HadoopReadOptions.builder(log.conf).build()
    val file = HadoopInputFile.fromStatus(status, log.conf)
    val rows = try Using.resource(ParquetFileReader.open(file, options)) {
      _.getRecordCount
    } catch {
      case e: Exception => throw LogProblem.damaged(part.file, s"can't be read: ${e.getMessage}")
    }
    if (rows != part.rows) {
      throw LogProblem.damaged(part.file, s"has $rows rows, and its log says ${part.rows}")
    }
  }

  private def bound(filter: Expression): Expression = filter.transform { case a: Attribute =>
    BoundReference(partitionSchema.fieldIndex(a.name), LongType, nullable = true)
  }
}

private object ChangeFiles {
  val Few = 8
  val Threads = 16
}
