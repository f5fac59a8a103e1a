package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.keyfold.messages.{DecodeMessages, MessageFormat, MessageKey, ValueFormat}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.types.StructType

/**
 * How the messages of a stream are decoded, as engine/sources/kafka.py declares it:
 * {{{
 * {"stream": "orders", "keepRejected": true, "metadata": ["key"], "deletes": false,
 *  "value": {"format": "json", "schema": {...}, "options": {}, "registry": null},
 *  "key": null, or as "value" with "single": true}
 * }}}
 */
class MessagesDeclaration private (json: JsonNode) {
  def step(source: Seq[Attribute], zone: String): DecodeMessages = DecodeMessages(
    value = format(json.get("value"), zone),
    key = Option(json.get("key")).filterNot(_.isNull)
      .map(key => MessageKey(format(key, zone), key.get("single").asBoolean)),
    metadata = json.get("metadata").asScala.map(_.asText).toSeq,
    deletes = json.get("deletes").asBoolean,
    source = source,
    sideOutputs =
      SideOutputSettings(json.get("keepRejected").asBoolean, zone, Some(json.get("stream").asText)))

  private def format(json: JsonNode, zone: String): MessageFormat = MessageFormat(
    ValueFormat(json.get("format").asText), StructType.fromString(json.get("schema").toString),
    json.get("options").properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap, zone,
    Option(json.get("registry")).filterNot(_.isNull).map(_.asText))
}

object MessagesDeclaration {
  def parse(declaration: String): MessagesDeclaration =
    new MessagesDeclaration(KernelJson.mapper.readTree(declaration))
}
