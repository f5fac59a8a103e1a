package org.apache.spark.sql.execution.keyfold.spark.formats

import com.fasterxml.jackson.core.JsonFactory
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.Text

import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.json.{CreateJacksonParser, JSONOptions, JSONOptionsInRead, JacksonParser}
import org.apache.spark.sql.catalyst.util.FailureSafeParser
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.text.{QuickColumns, QuickJson}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * Spark's format of JSON files. Lines in the usual form are read in a quick way; all others, and all where
 * the user declares options, are Spark's.
 */
class SparkJsonFormat extends JsonFileFormat {
  override def buildReader(
      session: AnySession, data: StructType, partition: StructType, required: StructType,
      filters: Seq[Filter], options: Map[String, String], hadoop: Configuration)
      : PartitionedFile => Iterator[InternalRow] = {
    def sparks = super.buildReader(session, data, partition, required, filters, options, hadoop)
    val conf = SparkDatasets.session(session).sessionState.conf
    val json = new JSONOptionsInRead(options, conf.sessionLocalTimeZone, conf.columnNameOfCorruptRecord)
    val wanted = StructType(required.filterNot(_.name == json.columnNameOfCorruptRecord))
    val quick = QuickColumns.canRead(wanted, options) && json.timestampFormatInRead.isEmpty &&
      filters.isEmpty && !json.archiveFormatEnabled
    if (!quick) return sparks
    val shipped = SerializableConfiguration.broadcast(session.sparkContext, hadoop)
    file => {
      val lines = SparkTextLines.of(file, shipped.value.value)
      val quickly = new QuickJson(required, json.columnNameOfCorruptRecord)
      lazy val others = SparkJsonFormat.parser(wanted, required, json)
      lines.rows(line => quickly.read(line.getBytes, line.getLength), line => others.parse(line))
    }
  }
}

private object SparkJsonFormat {
  private val begin = (factory: JsonFactory, line: Text) => CreateJacksonParser.text(factory, line)
  private val literal = (line: Text) => UTF8String.fromBytes(line.getBytes, 0, line.getLength)

  /** Parses lines as Spark's reader of JSON files does. */
  private def parser(wanted: StructType, required: StructType, json: JSONOptions): FailureSafeParser[Text] = {
    val parser = new JacksonParser(wanted, json, allowArrayAsStructs = true, Nil)
    new FailureSafeParser[Text](
      parser.parse(_, begin, literal), json.parseMode, required, json.columnNameOfCorruptRecord)
  }
}
