package org.apache.spark.sql.keyfold.messages

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, CodingErrorAction, StandardCharsets}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.rows.{ParseFailure, RowGate, RowOrigin}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * How the values of messages become rows of a schema. `options` are those of the format, as Spark has them;
 * `registry` is the URL of the Schema Registry, if there is one.
 */
case class MessageFormat(
    name: String, schema: StructType, options: Map[String, String], zone: String, registry: Option[String]) {
  /** One that serves one task. */
  def decoder(): MessageDecoder = name match {
    case "json" => new JsonDecoder(this)
    case "csv" => new CsvDecoder(this)
    case "avro" => new AvroDecoder(this)
    case "text" => new TextDecoder
    case "raw" => (value: Array[Byte]) => InternalRow(value)
  }

  /** Explains texts that are no rows of the schema. */
  private[messages] def failure: ParseFailure = new ParseFailure(
    RowGate(columns, Nil, keepRejected = true, zone, RowOrigin(None, name, options, files = false)))

  private def columns = schema.map(f => AttributeReference(f.name, f.dataType)())
}

/** Decodes the values of messages, one by one. */
trait MessageDecoder {
  /** The row of a value; throws `BadMessage` if it has none. */
  def decode(value: Array[Byte]): InternalRow
}

/** Why a message can't be decoded: a short reason, and details. */
case class BadMessage(reason: String, cause: Option[String] = None) extends Exception(reason) {
  override def fillInStackTrace(): Throwable = this
}

object BadMessage {
  val Empty: BadMessage = BadMessage("does not parse", Some("the message is empty"))

  def unparsed(columns: String, text: => String): BadMessage =
    if (columns != null) BadMessage(s"does not parse: $columns")
    else BadMessage("does not parse", Option(text))
}

private class TextDecoder extends MessageDecoder {
  override def decode(value: Array[Byte]): InternalRow = {
    val text = UTF8String.fromBytes(value)
    if (text.isValid) InternalRow(text) else throw MessageText.NotUtf8
  }
}

/** The bytes of a message as text. */
object MessageText {
  val NotUtf8: BadMessage = BadMessage("the message is not valid UTF-8")

  def strict(value: Array[Byte]): Option[String] = try {
    val decoder = StandardCharsets.UTF_8.newDecoder()
      .onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
    Some(decoder.decode(ByteBuffer.wrap(value)).toString)
  } catch { case _: CharacterCodingException => None }

  /** What a rejected message is shown as: its text, or base64 where it is none; at most `Longest` bytes. */
  def shown(value: Array[Byte]): String =
    if (value == null) ""
    else if (value.length > Longest) s"${shown(value.take(Longest))}... (${value.length} bytes)"
    else strict(value).filterNot(_.exists(c => c < ' ' && c != '\n' && c != '\r' && c != '\t'))
      .getOrElse(java.util.Base64.getEncoder.encodeToString(value))

  /** A rejected row travels to one task, and is kept in the log. */
  val Longest: Int = 64 * 1024
}
