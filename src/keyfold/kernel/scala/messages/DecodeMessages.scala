package org.apache.spark.sql.keyfold.messages

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, MessageOrigin}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.{MessageLocation, SideOutput, SideOutputBuilder}
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Messages of Kafka as rows: the columns of the value, those of the metadata, the message's origin, and the
 * side output of a message that can't be decoded. `source` are the columns of Spark's Kafka source.
 */
case class DecodeMessages(
    format: MessageFormat, metadata: Seq[String], textKey: Boolean, source: Seq[Attribute],
    sideOutputs: SideOutputSettings) extends PartitionStep {

  private val taken = metadata.map(name => source.find(_.name == name).get)

  def output: Seq[Attribute] = {
    val added = metadata.zip(taken).map { case (name, a) =>
      AttributeReference(s"kafka_$name", if (name == "key" && textKey) StringType else a.dataType)()
    }
    format.schema.map(f => AttributeReference(f.name, f.dataType)()) ++ added :+
      AttributeReference(InternalColumns.Message, MessageOrigin.schema)() :+ SideOutput.attribute()
  }

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val messages = new MessageRows(this)
    rows.map(messages.row)
  }

  private[messages] def index(name: String): Int = source.indexWhere(_.name == name)
}

private class MessageRows(step: DecodeMessages) {
  import step._
  private val decoder = format.decoder()
  private val (key, value) = (index("key"), index("value"))
  private val (topic, partition, offset) = (index("topic"), index("partition"), index("offset"))
  private val sides = new SideOutputBuilder(Nil, Nil, sideOutputs)
  private val (width, side) = (format.schema.length, SideOutput.attribute())
  private val decoded = format.schema.map(f => AttributeReference(f.name, f.dataType)())
  private val origin = CreateNamedStruct(MessageOrigin.schema.fields.toSeq.flatMap { f =>
    Seq(Literal(f.name), source(index(f.name)))
  })
  private val added = metadata.map { name =>
    val column = source(index(name))
    if (name == "key" && textKey) Cast(column, StringType) else column
  }
  private val project = UnsafeProjection.create(decoded ++ added :+ origin :+ side, decoded ++ source :+ side)
  private val (none, nothing) = (new GenericInternalRow(1), new GenericInternalRow(width))
  private val (left, all) = (new JoinedRow, new JoinedRow)

  def row(message: InternalRow): InternalRow = try {
    if (message.isNullAt(value)) throw tombstone(message)
    if (textKey && !message.isNullAt(key) && !UTF8String.fromBytes(message.getBinary(key)).isValid)
      throw BadMessage("the message's key is not valid UTF-8")
    project(all(left(decoder.decode(message.getBinary(value)), message), none))
  } catch { case bad: BadMessage => rejected(message, bad) }

  private def tombstone(message: InternalRow) = BadMessage("a tombstone: the message has no value",
    if (message.isNullAt(key)) None else Some(s"key ${MessageText.shown(message.getBinary(key))}"))

  private def rejected(message: InternalRow, bad: BadMessage): InternalRow = {
    val place = MessageLocation(
      message.getUTF8String(topic).copy(), message.getInt(partition), message.getLong(offset))
    val raw = MessageText.shown(if (message.isNullAt(value)) null else message.getBinary(value))
    project(all(left(nothing, message), InternalRow(sides.rejected(bad.reason, raw, bad.cause, Some(place)))))
  }
}
