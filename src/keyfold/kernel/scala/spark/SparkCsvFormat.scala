package org.apache.spark.sql.execution.keyfold.spark

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.{CSVHeaderChecker, CSVOptions}
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.datasources.csv.{CSVDataSource, CSVFileFormat}
import org.apache.spark.sql.keyfold.spark.{SparkCsvParser, SparkDatasets}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Spark's format of CSV files, read by the kernel's parser, which differs from Spark's in speed alone. */
class SparkCsvFormat extends CSVFileFormat {
  override def buildReader(
      session: AnySession, data: StructType, partition: StructType, required: StructType,
      filters: Seq[Filter], options: Map[String, String], hadoop: Configuration)
      : PartitionedFile => Iterator[InternalRow] = {
    val conf = SparkDatasets.session(session).sessionState.conf
    val csv = new CSVOptions(
      options, conf.csvColumnPruning, conf.sessionLocalTimeZone, conf.columnNameOfCorruptRecord)
    // Spark has a way of its own to read files in archives.
    if (csv.archiveFormatEnabled)
      return super.buildReader(session, data, partition, required, filters, options, hadoop)
    val raw = csv.columnNameOfCorruptRecord
    def inFile(schema: StructType) = StructType(schema.filterNot(_.name == raw))
    val header = inFile(if (csv.isColumnPruningEnabled(required)) required else data)
    val (all, wanted) = (inFile(data), inFile(required))
    val usable = filters.filterNot(_.references.contains(raw))
    val shipped = SerializableConfiguration.broadcast(session.sparkContext, hadoop)
    file => {
      val parser = new SparkCsvParser(all, wanted, csv, usable)
      val checker = new CSVHeaderChecker(header, csv, s"CSV file: ${file.urlEncodedPath}", file.start == 0)
      CSVDataSource(csv).readFile(shipped.value.value, file, parser, checker, required)
    }
  }
}

object SparkCsvFormat {
  /** The format, or the kernel's in place of Spark's for CSV. */
  def of(format: FileFormat): FileFormat = format match {
    case _: CSVFileFormat => new SparkCsvFormat
    case other => other
  }
}
