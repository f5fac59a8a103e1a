package org.apache.spark.sql.execution.keyfold.io

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, BoundReference, Expression, Predicate}
import org.apache.spark.sql.catalyst.plans.logical.Union
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils}
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.keyfold.expressions.KernelError
import org.apache.spark.sql.keyfold.spark.scan.SparkInputFiles
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * The files of one batch as rows with the stream's columns. A directory `column=value` fills the column if
 * the stream has it, and has no meaning otherwise.
 */
class PlannedBatch(
    session: SparkSession,
    directory: SourceDirectory,
    format: FileFormat,
    schema: StructType,
    options: CaseInsensitiveMap[String]) {
  // Whatever the session's settings: every planned file is read, or the batch fails.
  private val strict = Map("ignoreMissingFiles" -> "false", "ignoreCorruptFiles" -> "false")
  private val readOptions = (options - "path") ++ strict
  private val zone = DateTimeUtils.getZoneId(session.sessionState.conf.sessionLocalTimeZone)
  private val sameName = session.sessionState.conf.resolver

  /**
   * A file of the batch, with its place in the batch, by which its rows are ordered, and the values that its
   * directories have for the stream's columns.
   */
  private case class Planned(path: Path, rank: Int, values: Map[String, String])

  def of(names: Seq[String]): DataFrame = {
    val files = names.zipWithIndex.map { case (name, rank) =>
      Planned(directory.file(name), rank, directoryValues(name))
    }
    val existing = directory.existing(files.map(_.path)).map(f => f.getPath -> f).toMap
    val missing = files.map(_.path).filterNot(existing.contains)
    // One relation for the files whose directories fill the same columns; an empty one for an empty batch.
    val byColumns = if (files.isEmpty) Map(Set.empty[String] -> Nil) else files.groupBy(_.values.keySet)
    val relations = byColumns.toSeq.sortBy { case (columns, _) => columns.toSeq.sorted.mkString("/") }.map {
      case (columns, group) => relation(columns, group, existing, missing)
    }
    Dataset.ofRows(session, if (relations.size == 1) relations.head else Union(relations))
  }

  private def relation(
      columns: Set[String],
      files: Seq[Planned],
      existing: Map[Path, FileStatus],
      missing: Seq[Path]): LogicalRelation = {
    val (inPath, inFile) = schema.partition(f => columns(f.name))
    val directories = files.groupBy(_.values).toSeq.map { case (values, same) =>
      val row = InternalRow.fromSeq(inPath.map(f => typed(f, values(f.name), same.head.path)))
      val found = same.flatMap(file => existing.get(file.path).map(SparkInputFiles.ranked(_, file.rank)))
      row -> found.filter(_.getLen > 0)
    }
    val index = new PlannedFiles(StructType(inPath), directories, missing)
    val data = StructType(inFile)
    DataSourceUtils.verifySchema(format, data, readOnly = true)
    val found = HadoopFsRelation(index, index.partitionSchema, data, None, format, readOptions)(session)
    val plan = LogicalRelation(found, isStreaming = true)
    plan.copy(output = schema.map(f => plan.output.find(_.name == f.name).get))
  }

  private def directoryValues(name: String): Map[String, String] =
    SourceDirectory.partitionColumns(SourceDirectory.withoutStream(name)).flatMap { case (column, value) =>
      schema.find(f => sameName(f.name, column)).map(_.name -> value)
    }.toMap

  private def typed(column: StructField, text: String, file: Path): Any =
    try PartitioningUtils.castPartValueToDesiredType(column.dataType, text, zone)
    catch {
      case e: Exception => throw KernelError(KernelError.BadDirectory,
        s"the directory ${column.name}=$text does not fit the column's type, ${column.dataType.sql}: $file",
        cause = e)
    }
}

/**
 * The files that a batch is to read, of which some may be missing. That is an error when the batch runs and
 * not before: on a restart Spark also asks for the last batch that is done, whose files may have been
 * removed since.
 */
class PlannedFiles(
    override val partitionSchema: StructType,
    directories: Seq[(InternalRow, Seq[FileStatusWithMetadata])],
    missing: Seq[Path]) extends FileIndex {
  private def files = directories.flatMap(_._2)

  override def rootPaths: Seq[Path] = files.map(_.getPath)
  override def inputFiles: Array[String] = rootPaths.map(_.toUri.toString).toArray
  override def refresh(): Unit = ()
  override def sizeInBytes: Long = files.map(_.getLen).sum

  override def listFiles(
      partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    if (missing.nonEmpty) {
      val names = new ObjectMapper().writeValueAsString(missing.map(_.toUri.toString).toArray)
      throw KernelError(KernelError.MissingFiles, names, Map("files" -> names))
    }
    val filter = partitionFilters.reduceOption(And).map(all => Predicate.createInterpreted(bound(all)))
    directories.filter { case (row, _) => filter.forall(_.eval(row)) }
      .map { case (row, found) => PartitionDirectory(row, found) }
  }

  private def bound(filter: Expression): Expression = filter.transform { case a: Attribute =>
    val i = partitionSchema.fieldIndex(a.name)
    BoundReference(i, partitionSchema(i).dataType, nullable = true)
  }
}
