package org.apache.spark.sql.keyfold.messages

import com.fasterxml.jackson.core.{JsonFactory, JsonParser}
import com.fasterxml.jackson.core.util.JsonParserDelegate

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.json.{JacksonParser, JSONOptions}
import org.apache.spark.sql.catalyst.util.BadRecordException
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.rows.parsing.JsonText
import org.apache.spark.sql.keyfold.text.{QuickColumns, QuickJson}
import org.apache.spark.unsafe.types.UTF8String

private object JsonDecoder extends ValueFormat {
  override def decoder(declared: MessageFormat): MessageDecoder = new JsonDecoder(declared)
}

/** One JSON object per message, by Spark's own parser where it is not in the usual form. */
private class JsonDecoder(format: MessageFormat) extends MessageDecoder {
  private val options = new JSONOptions(format.options, format.zone, InternalColumns.Raw)
  private val parser = new JacksonParser(format.schema, options, false, Nil)
  private val quick =
    if (QuickColumns.canRead(format.schema, format.options) && options.timestampFormatInRead.isEmpty)
      new QuickJson(format.schema, InternalColumns.Raw)
    else null
  private lazy val failure = JsonText.failure(format.columns, format.options, format.zone)
  private var trailing = false

  // From bytes, Jackson checks that they are UTF-8; from characters, wrong bytes would have been replaced.
  private val begin = (factory: JsonFactory, value: Array[Byte]) => new Whole(factory.createParser(value))
  private val literal = (value: Array[Byte]) => UTF8String.fromBytes(value)

  override def decode(value: Array[Byte]): InternalRow = {
    val row = if (quick == null) null else quick.read(value, value.length)
    if (row != null) row else parsed(value)
  }

  private def parsed(value: Array[Byte]): InternalRow = {
    val rows = try parser.parse[Array[Byte]](value, begin, literal)
      catch { case e: BadRecordException => throw bad(value, e) }
    val row = rows.iterator
    if (!row.hasNext)
      throw if (value.isEmpty) BadMessage.Empty else bad(value, null)
    if (trailing) throw BadMessage("does not parse", Some("more than one JSON value"))
    row.next()
  }

  private def bad(value: Array[Byte], error: BadRecordException): BadMessage =
    MessageText.strict(value) match {
      case None => MessageText.NotUtf8
      case Some(text) =>
        val partial = if (error == null) None else error.partialResults().headOption
        val columns = partial.map(failure.columns(_, text)).orNull
        BadMessage.unparsed(columns, Option(failure.text(text)).getOrElse(
          if (text.trim.isEmpty) "no text" else "a JSON array, and a message is one row"))
    }

  /** Notices whether anything follows the value when Spark closes the parser: it would be lost. */
  private class Whole(parser: JsonParser) extends JsonParserDelegate(parser) {
    override def close(): Unit = {
      trailing = try !delegate.isClosed && delegate.nextToken() != null catch { case _: Exception => true }
      super.close()
    }
  }
}
