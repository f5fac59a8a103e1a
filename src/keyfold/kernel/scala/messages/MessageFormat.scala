package org.apache.spark.sql.keyfold.messages

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.types._

/**
 * How the values, or the keys, of messages become rows of a schema. `options` are those of the format;
 * `registry` is the URL of the Schema Registry, if there is one.
 */
case class MessageFormat(
    format: ValueFormat, schema: StructType, options: Map[String, String], zone: String,
    registry: Option[String]) {
  /** One that serves one task. */
  def decoder(): MessageDecoder = format.decoder(this)

  def columns: Seq[Attribute] = schema.map(f => AttributeReference(f.name, f.dataType)())
}

/** A format of the values or keys of messages. */
trait ValueFormat extends Serializable {
  def decoder(declared: MessageFormat): MessageDecoder

  /** Refuses, when a table is compiled, what can't be decoded as declared. */
  def check(declared: MessageFormat): Unit = ()
}

object ValueFormat {
  private val byName: Map[String, ValueFormat] = Map(
    "json" -> JsonDecoder,
    "csv" -> CsvDecoder,
    "avro" -> AvroDecoder,
    "protobuf" -> ProtobufDecoder,
    "text" -> TextDecoder,
    "raw" -> RawDecoder) ++ NumberDecoder.byName

  def apply(name: String): ValueFormat = byName(name)
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
