package org.apache.spark.sql.keyfold.messages

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.avro.io.{BinaryDecoder, DecoderFactory}
import org.apache.avro.{AvroRuntimeException, Schema}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap

/**
 * Avro records: in Confluent's wire format, a zero byte and the id of a schema in the registry before the
 * record, or without a registry all written with the schema of the option `avroSchema`.
 */
private class AvroDecoder(format: MessageFormat) extends MessageDecoder {
  private val registry = format.registry.map(SchemaRegistry(_))
  private val fixed = if (registry.isDefined) None
    else Some(read(SchemaRegistry.parsed(CaseInsensitiveMap(format.options)("avroSchema"))))
  private val byId = mutable.LongMap.empty[Either[BadMessage, AvroRecord]]
  private var reused: BinaryDecoder = _

  override def decode(value: Array[Byte]): InternalRow = {
    val from = if (registry.isEmpty) 0 else AvroDecoder.HeaderBytes
    val record = fixed.getOrElse(written(value)).fold(throw _, identity)
    reused = DecoderFactory.get().binaryDecoder(value, from, value.length - from, reused)
    val row = try record.read(new BoundedAvro(reused, value.length)) catch {
      case bad: BadMessage => throw bad
      case e @ (_: java.io.IOException | _: AvroRuntimeException | _: IndexOutOfBoundsException) =>
        val why = Option(e.getMessage).getOrElse("it ends too early")
        throw BadMessage("does not parse", Some(s"not a record of its Avro schema: $why"))
    }
    if (!reused.isEnd) throw BadMessage("does not parse", Some("bytes are left after the Avro record"))
    row
  }

  private def written(value: Array[Byte]): Either[BadMessage, AvroRecord] = {
    if (value.length < AvroDecoder.HeaderBytes || value(0) != 0) throw AvroDecoder.NoHeader
    val id = ByteBuffer.wrap(value).getInt(1)
    byId.getOrElseUpdate(id,
      read(registry.get.schema(id).getOrElse(throw BadMessage(s"schema $id is unknown to the registry"))))
  }

  /** How records of a schema become rows, or why they can't. */
  private def read(schema: => Schema): Either[BadMessage, AvroRecord] =
    try Right(AvroRecord(schema, format.schema)) catch { case bad: BadMessage => Left(bad) }
}

private object AvroDecoder extends ValueFormat {
  override def decoder(declared: MessageFormat): MessageDecoder = new AvroDecoder(declared)

  val HeaderBytes = 5
  val NoHeader: BadMessage =
    BadMessage("does not parse", Some("it does not begin with a zero byte and the id of a schema"))
}
