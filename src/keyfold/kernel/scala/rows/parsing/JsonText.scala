package org.apache.spark.sql.keyfold.rows.parsing

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._

/** JSON objects. */
object JsonText extends TextFormat {
  override def failure(columns: Seq[Attribute], options: Map[String, String], zone: String): ParseFailure =
    new JsonFailure(columns, new JSONOptions(options, zone, InternalColumns.Raw))
}

private class JsonFailure(source: Seq[Attribute], json: JSONOptions) extends ParseFailure {
  private val known = ParseFailure.visible(source)
  private lazy val mapper = new ObjectMapper(json.buildJsonFactory())

  override def lined: Boolean =
    ParseFailure.isLined(json.multiLine, json.lineSeparator, json.encoding.getOrElse("UTF-8"))

  override def columns(row: InternalRow, text: String): String = try mapper.readTree(text) match {
    case o: ObjectNode => ParseFailure.describe(
      known.flatMap { case (a, i) => unread(a.name, a.dataType, o.get(a.name), row, i) })
    case _ => null
  } catch { case _: JsonProcessingException => null }

  override def text(text: String): String = try mapper.readTree(text) match {
    // Spark takes each element of an array for a row, or none of them.
    case _: ObjectNode | _: ArrayNode => null
    case other => s"not a JSON object: ${ParseFailure.short(other.toString)}"
  } catch {
    case e: JsonProcessingException =>
      val words = Option(e.getOriginalMessage).getOrElse("").replaceAll("\\s*\\(start marker at .*", "")
      s"malformed JSON: $words" + Option(e.getLocation).fold("")(l => s" at character ${l.getColumnNr}")
  }

  /** Values that the text has and the row has not. */
  private def unread(
      name: String, kind: DataType, value: JsonNode, row: InternalRow,
      at: Int): Seq[(String, String, DataType)] =
    if (value == null || value.isNull) Nil
    else if (row.isNullAt(at)) Seq((name, if (value.isTextual) value.asText else value.toString, kind))
    else (kind, value) match {
      case (s: StructType, o: ObjectNode) =>
        val inner = row.getStruct(at, s.length)
        s.fields.toSeq.zipWithIndex.flatMap { case (f, i) =>
          unread(s"$name.${f.name}", f.dataType, o.get(f.name), inner, i)
        }
      case _ => Nil
    }
}
