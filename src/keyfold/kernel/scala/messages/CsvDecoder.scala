package org.apache.spark.sql.keyfold.messages

import com.univocity.parsers.csv.CsvParser

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.{CSVOptions, UnivocityParser}
import org.apache.spark.sql.catalyst.util.BadRecordException
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.rows.parsing.CsvText
import org.apache.spark.sql.keyfold.text.{QuickColumns, QuickCsv}

private object CsvDecoder extends ValueFormat {
  override def decoder(declared: MessageFormat): MessageDecoder = new CsvDecoder(declared)
}

/** One CSV record per message, without a header, by Spark's own parser where it is not in the usual form. */
private class CsvDecoder(format: MessageFormat) extends MessageDecoder {
  private val options =
    new CSVOptions(format.options, columnPruning = false, format.zone, InternalColumns.Raw)
  private val parser = new UnivocityParser(format.schema, options)
  private val quick =
    if (QuickColumns.canRead(format.schema, format.options) && options.timestampFormatInRead.isEmpty)
      new QuickCsv(format.schema, InternalColumns.Raw, ',')
    else null
  private lazy val counting = new CsvParser(options.asParserSettings)
  private lazy val failure = CsvText.failure(format.columns, format.options, format.zone)

  override def decode(value: Array[Byte]): InternalRow = {
    val row = if (quick == null) null else quick.read(value, value.length)
    if (row != null) row else parsed(value)
  }

  private def parsed(value: Array[Byte]): InternalRow = {
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
