package org.apache.spark.sql.keyfold.messages

import java.util.Base64

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.keyfold.spark.formats.SparkProtobuf

private object ProtobufDecoder extends ValueFormat {
  val HeaderBytes = 5
  /** Options that the engine sets: the descriptor set in base64, and the full name of the message. */
  private val (descriptors, name) = ("descriptor", "message")

  override def decoder(declared: MessageFormat): MessageDecoder = {
    val message = descriptor(declared.options)
    new ProtobufDecoder(message, ProtobufRecord(message, declared.schema))
  }

  override def check(declared: MessageFormat): Unit = decoder(declared)

  private def descriptor(options: Map[String, String]): SparkProtobuf.Descriptor = {
    val files = SparkProtobuf.files(Base64.getDecoder.decode(options(descriptors))).getOrElse(
      throw new RefusedException("the file is not a descriptor set that is whole: " +
        "protoc --include_imports --descriptor_set_out=FILE writes one"))
    val known = files.flatMap(SparkProtobuf.messages)
    known.find(_.getFullName == options(name)).getOrElse(throw new RefusedException(
      s"the descriptor set has no message ${options(name)}; it has: " +
        known.map(_.getFullName).mkString(", ")))
  }
}

/**
 * Protobuf messages of one type. One that begins with a zero byte, as none does by itself, is in Confluent's
 * wire format: the id of a schema, and the positions by which its file has the message.
 */
private class ProtobufDecoder(message: SparkProtobuf.Descriptor, record: ProtobufRecord)
    extends MessageDecoder {
  override def decode(value: Array[Byte]): InternalRow = {
    val from = if (value.nonEmpty && value(0) == 0) behindHeader(value) else 0
    val parsed = try SparkProtobuf.parse(message, value, from) catch {
      case e: SparkProtobuf.BadBytes => throw bad(s"not a ${message.getFullName}: ${e.getMessage}")
    }
    // Any text or number may parse as fields that the message does not have.
    if (parsed.getAllFields.isEmpty && !parsed.getUnknownFields.asMap.isEmpty)
      throw bad(s"not a ${message.getFullName}: it has none of its fields")
    if (!parsed.isInitialized)
      throw bad(s"required fields are missing: ${parsed.findInitializationErrors.asScala.mkString(", ")}")
    record.read(parsed)
  }

  private def bad(cause: String) = BadMessage("does not parse", Some(cause))

  /** Where the message begins. */
  private def behindHeader(value: Array[Byte]): Int = {
    var at = ProtobufDecoder.HeaderBytes
    def varint(): Int = {
      var (found, shift) = (0L, 0)
      while (true) {
        if (at >= value.length || shift > 28)
          throw bad("it ends within Confluent's header, or has a wrong one")
        val byte = value(at)
        at += 1
        found |= (byte & 0x7fL) << shift
        shift += 7
        // Numbers are written with the sign in the lowest bit.
        if (byte >= 0) return ((found >>> 1) ^ -(found & 1)).toInt
      }
      0
    }
    val length = varint()
    if (length < 0 || length > value.length) throw bad("it has a wrong header of Confluent's")
    val path = if (length == 0) Seq(0) else Seq.fill(length)(varint())
    val other = SparkProtobuf.at(message.getFile, path).filterNot(_ == message)
    other.foreach(o => throw bad(s"it is a ${o.getFullName}, and not a ${message.getFullName}"))
    at
  }
}
