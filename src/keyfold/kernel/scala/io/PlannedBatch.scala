package org.apache.spark.sql.execution.keyfold.io

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, BoundReference, Expression, Predicate}
import org.apache.spark.sql.catalyst.plans.logical.Union
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils}
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * The files of one batch as rows with the stream's columns. A directory below the stream's that is named
 * `column=value` fills the column if the stream has it, and says nothing otherwise.
 */
class PlannedBatch(session: SparkSession, place: SourceDirectory, format: FileFormat, schema: StructType,
    options: CaseInsensitiveMap[String]) {
  // Whatever the session says: what is planned is read, or the batch fails.
  private val strict = Map("ignoreMissingFiles" -> "false", "ignoreCorruptFiles" -> "false")
  private val inner = (options - "path") ++ strict
  private val zone = DateTimeUtils.getZoneId(session.sessionState.conf.sessionLocalTimeZone)
  private val same = session.sessionState.conf.resolver

  def of(names: Seq[String]): DataFrame = {
    val files = names.map(name => place.file(name) -> filled(name))
    val there = place.there(files.map(_._1)).map(f => f.getPath -> f).toMap
    val missing = files.map(_._1).filterNot(there.contains)
    val groups = files.groupBy(_._2.keySet)
    val plans = (if (groups.isEmpty) Map(Set.empty[String] -> Nil) else groups).toSeq
      .sortBy(_._1.toSeq.sorted.mkString("/")).map { case (names, found) =>
        val (path, data) = schema.partition(f => names(f.name))
        val directories = found.groupBy(_._2).toSeq.map { case (values, all) =>
          val row = InternalRow.fromSeq(path.map(f => value(f, values(f.name), all.head._1)))
          row -> all.flatMap { case (file, _) => there.get(file) }.filter(_.getLen > 0)
        }
        relation(new PlannedFiles(StructType(path), directories, missing), StructType(data))
      }
    Dataset.ofRows(session, if (plans.size == 1) plans.head else Union(plans))
  }

  private def relation(files: PlannedFiles, data: StructType): LogicalRelation = {
    val found = HadoopFsRelation(files, files.partitionSchema, data, None, format, inner)(session)
    DataSourceUtils.verifySchema(format, data, readOnly = true)
    val plan = LogicalRelation(found, isStreaming = true)
    plan.copy(output = schema.map(f => plan.output.find(_.name == f.name).get))
  }

  /** What the directories of a file say of the stream's columns. */
  private def filled(name: String): Map[String, String] =
    SourceDirectory.pairs(SourceDirectory.below(name)).flatMap { case (column, value) =>
      schema.find(f => same(f.name, column)).map(_.name -> value)
    }.toMap

  private def value(column: StructField, text: String, file: Path): Any =
    try PartitioningUtils.castPartValueToDesiredType(column.dataType, text, zone)
    catch {
      case e: Exception => throw new IllegalStateException(
        
        s"[KEYFOLD_BAD_DIRECTORY] the directory ${column.name}=$text does not fit the column's type, " +
        s"${column.dataType.sql}: $file", e)
    }
}

/**
 * Files that a batch is to read, some of which may be missing. That is told when it runs and not before:
 * Spark also asks for the last batch when it is done, whose files may have been put away since.
 */
class PlannedFiles(override val partitionSchema: StructType, directories: Seq[(InternalRow, Seq[FileStatus])],
    missing: Seq[Path]) extends FileIndex {
  private def files = directories.flatMap(_._2)

  override def rootPaths: Seq[Path] = files.map(_.getPath)
  override def inputFiles: Array[String] = rootPaths.map(_.toUri.toString).toArray
  override def refresh(): Unit = ()
  override def sizeInBytes: Long = files.map(_.getLen).sum

  override def listFiles(wanted: Seq[Expression], data: Seq[Expression]): Seq[PartitionDirectory] = {
    if (missing.nonEmpty) {
      throw new IllegalStateException(s"[KEYFOLD_MISSING_FILES] ${missing.map(_.toUri).mkString("\n")}")
    }
    val keep = wanted.reduceOption(And).map(all => Predicate.createInterpreted(all.transform {
      case a: Attribute =>
        val at = partitionSchema.fieldIndex(a.name)
        BoundReference(at, partitionSchema(at).dataType, nullable = true)
    }))
    directories.filter { case (row, _) => keep.forall(_.eval(row)) }
      .map { case (row, found) => PartitionDirectory(row, found.toArray) }
  }
}
