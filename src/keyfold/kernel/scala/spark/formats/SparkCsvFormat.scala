package org.apache.spark.sql.execution.keyfold.spark.formats

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.Text

import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.{CSVExprUtils, CSVHeaderChecker, CSVOptions, UnivocityParser}
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, FailureSafeParser}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.text.{QuickColumns, QuickCsv}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Spark's format of CSV files. Lines in the usual form are read in a quick way; all others, and all where
 * the user declares options, are Spark's.
 */
class SparkCsvFormat extends CSVFileFormat {
  override def buildReader(
      session: AnySession, data: StructType, partition: StructType, required: StructType,
      filters: Seq[Filter], options: Map[String, String], hadoop: Configuration)
      : PartitionedFile => Iterator[InternalRow] = {
    def sparks = super.buildReader(session, data, partition, required, filters, options, hadoop)
    val conf = SparkDatasets.session(session).sessionState.conf
    val csv = new CSVOptions(
      options, conf.csvColumnPruning, conf.sessionLocalTimeZone, conf.columnNameOfCorruptRecord)
    val raw = csv.columnNameOfCorruptRecord
    def inFile(schema: StructType) = StructType(schema.filterNot(_.name == raw))
    val (all, wanted) = (inFile(data), inFile(required))
    val usual = QuickColumns.canRead(wanted, CaseInsensitiveMap(options) - "sep" - "delimiter")
    val quick = usual && SparkCsvFormat.isUsual(csv.delimiter) && csv.timestampFormatInRead.isEmpty &&
      all == wanted && filters.isEmpty && !csv.archiveFormatEnabled
    if (!quick) return sparks
    val shipped = SerializableConfiguration.broadcast(session.sparkContext, hadoop)
    file => {
      val lines = SparkTextLines.of(file, shipped.value.value)
      val parser = new SparkCsvLines(all, required, csv)
      parser.skipHeader(lines, file)
      val quickly = new QuickCsv(required, raw, csv.delimiter.charAt(0).toByte)
      lines.rows(line => quickly.read(line.getBytes, line.getLength), parser.rows)
    }
  }
}

private object SparkCsvFormat {
  /** Whether values end at a character that is nothing else to the quick way. */
  private def isUsual(delimiter: String): Boolean =
    delimiter.length == 1 && delimiter.charAt(0) < 127 && !"\"\\ \r\n".contains(delimiter) &&
      (delimiter.charAt(0) > ' ' || delimiter == "\t")
}

/** Parses lines as Spark's reader of CSV files does. */
private class SparkCsvLines(all: StructType, required: StructType, csv: CSVOptions) {
  private val parser = new UnivocityParser(all, all, csv)
  private val safe = new FailureSafeParser[String](
    parser.parse(_), csv.parseMode, required, csv.columnNameOfCorruptRecord)

  /** Where a file begins with its header, Spark's check of it takes it from the lines. */
  def skipHeader(lines: Iterator[Text], file: PartitionedFile): Unit = {
    val checker = new CSVHeaderChecker(all, csv, s"CSV file: ${file.urlEncodedPath}", file.start == 0)
    UnivocityParser.parseIterator(lines.map(decoded), parser, checker, required)
  }

  def rows(line: Text): Iterator[InternalRow] =
    CSVExprUtils.filterCommentAndEmpty(Iterator.single(decoded(line)), csv).flatMap(safe.parse)

  private def decoded(line: Text): String = new String(line.getBytes, 0, line.getLength, csv.charset)
}
