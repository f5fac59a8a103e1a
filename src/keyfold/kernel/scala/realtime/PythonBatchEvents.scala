package org.apache.spark.sql.keyfold.realtime

import java.util.function.{Function => JavaFunction}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.keyfold.log.WrittenBatch

/**
 * Events that Python handles. Both ways travel as JSON: what Python passes is an object of a Java interface,
 * which must be one that Java's own class loader knows.
 */
class PythonBatchEvents(handler: JavaFunction[String, String]) extends BatchEvents {
  private val json = new ObjectMapper

  override def begin(batch: Long): BegunBatch = {
    val answer = json.readTree(call(Map("event" -> "begin", "batch" -> batch)))
    val headers = answer.get("headers").properties().asScala.map(e => e.getKey -> e.getValue.asText()).toMap
    BegunBatch(answer.get("directory").asText(), answer.get("changes").asBoolean(), headers)
  }

  override def prepared(batch: Long, written: WrittenBatch): Unit =
    call(Map("event" -> "prepared", "batch" -> batch, "written" -> written.asJava))

  private def call(event: Map[String, Any]): String = handler.apply(json.writeValueAsString(event.asJava))
}
