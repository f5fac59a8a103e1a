package org.apache.spark.sql.keyfold.messages

import com.univocity.parsers.csv.CsvParser

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.util.BadRecordException
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.rows.CsvText
import org.apache.spark.sql.keyfold.spark.SparkCsvParser

private object CsvDecoder extends ValueFormat {
  override def decoder(declared: MessageFormat): MessageDecoder = new CsvDecoder(declared)
}

/** One CSV record per message, without a header, by Spark's own parser. */
private class CsvDecoder(format: MessageFormat) extends MessageDecoder {
  private val options =
    new CSVOptions(format.options, columnPruning = false, format.zone, InternalColumns.Raw)
  private val parser = new SparkCsvParser(format.schema, format.schema, options)
  private lazy val counting = new CsvParser(options.asParserSettings)
  private lazy val failure = CsvText.failure(format.columns, format.options, format.zone)

  override def decode(value: Array[Byte]): InternalRow = {
    val text = MessageText.strict(value).getOrElse(throw MessageText.NotUtf8).stripLineEnd
    if (text.isEmpty) throw BadMessage.Empty
    // The parser would take the first record and leave the others out.
    if (text.indexOf('\n') >= 0 && counting.parseAll(new java.io.StringReader(text)).size > 1)
      throw BadMessage("does not parse", Some("more than one CSV record"))
    val row = try parser.parse(text) catch { case e: BadRecordException =>
      val partial = e.partialResults().headOption
      throw BadMessage.unparsed(partial.map(failure.columns(_, text)).orNull, null)
    }
    row.getOrElse(throw BadMessage.Empty)
  }
}
