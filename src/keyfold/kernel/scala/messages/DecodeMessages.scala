package org.apache.spark.sql.keyfold.messages

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, MessageOrigin, RowId}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.side_output.{MessageLocation, SideOutput, SideOutputBuilder}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.types._

/**
 * How the keys of messages are decoded. `single`: the column `kafka_key` is the only column of the format's
 * schema, else a struct of its columns.
 */
case class MessageKey(format: MessageFormat, single: Boolean) {
  def dataType: DataType = if (single) format.schema.head.dataType else format.schema
}

/**
 * Messages of Kafka as rows: the columns of the value, those of the metadata, the message's origin, and the
 * side output of a message that can't be decoded. `source` are the columns of Spark's Kafka source. Without
 * `key`, keys are bytes. `deletes`: a message without a value retracts the row of its key, else it is
 * rejected.
 */
case class DecodeMessages(
    value: MessageFormat, key: Option[MessageKey], metadata: Seq[String], deletes: Boolean,
    source: Seq[Attribute], sideOutputs: SideOutputSettings) extends PartitionStep {

  def output: Seq[Attribute] = {
    val added = metadata.map(name => AttributeReference(s"kafka_$name", metadataType(name))())
    val retracting = if (deletes) Seq(
      AttributeReference(InternalColumns.Weight, IntegerType, nullable = false)(),
      AttributeReference(InternalColumns.RowId, RowId.schema)()) else Nil
    value.columns ++ added ++ retracting :+
      AttributeReference(InternalColumns.Message, MessageOrigin.schema)() :+ SideOutput.attribute()
  }

  private def metadataType(name: String): DataType = key match {
    case Some(k) if name == "key" => k.dataType
    case _ => source(index(name)).dataType
  }

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val messages = new MessageRows(this)
    rows.map(messages.row)
  }

  private[messages] def index(name: String): Int = source.indexWhere(_.name == name)
}

private class MessageRows(step: DecodeMessages) {
  import step.{index, source}
  private val (values, keys) = (step.value.decoder(), step.key.map(_.format.decoder()).orNull)
  private val singleKey = step.key.exists(_.single)
  private val (key, value) = (index("key"), index("value"))
  private val (topic, partition, offset) = (index("topic"), index("partition"), index("offset"))
  private val sides = new SideOutputBuilder(Nil, Nil, step.sideOutputs)

  private val decoded = step.value.columns
  private val decodedKey = step.key.map(k => AttributeReference("key", k.dataType)())
  private val weight = AttributeReference("weight", IntegerType, nullable = false)()
  private val side = SideOutput.attribute()
  private val added = step.metadata.map { name =>
    decodedKey.filter(_ => name == "key").getOrElse(source(index(name)))
  }
  private val origin = struct(MessageOrigin.schema, MessageOrigin.schema.names.map(n => source(index(n))))
  /** A key's messages are in one partition, in the order of their offsets. */
  private val retracting =
    if (step.deletes) Seq(weight, struct(RowId.schema, Array(source(key), source(offset)))) else Nil
  private val project = UnsafeProjection.create(
    decoded ++ added ++ retracting :+ origin :+ side, decoded ++ source ++ decodedKey :+ weight :+ side)

  private val nothing = new GenericInternalRow(decoded.length)
  private val rest = new GenericInternalRow(decodedKey.size + 2)
  private val (left, all) = (new JoinedRow, new JoinedRow)

  private def struct(schema: StructType, fields: Array[Attribute]) =
    CreateNamedStruct(schema.names.toSeq.zip(fields).flatMap { case (name, f) => Seq(Literal(name), f) })

  def row(message: InternalRow): InternalRow = try {
    val found = keyOf(message)
    if (!message.isNullAt(value)) made(values.decode(message.getBinary(value)), message, found, 1, null)
    else if (!step.deletes) throw tombstone(message)
    else if (message.isNullAt(key)) throw BadMessage("a tombstone without a key: nothing to delete")
    else made(nothing, message, found, -1, null)
  } catch { case bad: BadMessage => rejected(message, bad) }

  private def keyOf(message: InternalRow): Any =
    if (keys == null || message.isNullAt(key)) null else try {
      val found = keys.decode(message.getBinary(key))
      if (singleKey) found.get(0, decodedKey.get.dataType) else found
    } catch {
      case MessageText.NotUtf8 => throw BadMessage("the message's key is not valid UTF-8")
      case bad: BadMessage => throw BadMessage(s"the message's key ${bad.reason}", bad.cause)
    }

  private def made(
      row: InternalRow, message: InternalRow, key: Any, weight: Int, side: InternalRow): InternalRow = {
    if (decodedKey.isDefined) rest.update(0, key)
    rest.update(rest.numFields - 2, weight)
    rest.update(rest.numFields - 1, side)
    project(all(left(row, message), rest))
  }

  private def tombstone(message: InternalRow) = BadMessage("a tombstone: the message has no value",
    if (message.isNullAt(key)) None else Some(s"key ${MessageText.shown(message.getBinary(key))}"))

  private def rejected(message: InternalRow, bad: BadMessage): InternalRow = {
    val place = MessageLocation(
      message.getUTF8String(topic).copy(), message.getInt(partition), message.getLong(offset))
    val raw = MessageText.shown(if (message.isNullAt(value)) null else message.getBinary(value))
    made(nothing, message, null, 1, sides.rejected(bad.reason, raw, bad.cause, Some(place)))
  }
}
