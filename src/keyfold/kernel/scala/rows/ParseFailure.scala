package org.apache.spark.sql.keyfold.rows

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.univocity.parsers.csv.CsvParser

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._

/**
 * Why a text is not a row of the schema. Spark only leaves the columns null that it could not read.
 */
class ParseFailure(gate: RowGate) {
  import gate.origin
  private lazy val csv = new CSVOptions(origin.options, columnPruning = false, gate.zone)
  private lazy val json = new JSONOptions(origin.options, gate.zone, InternalColumns.Raw)
  private lazy val mapper = new ObjectMapper(json.buildJsonFactory())
  private val known = gate.source.zipWithIndex.filterNot { case (a, _) => InternalColumns.hidden(a.name) }

  /** Whether a row is a line, in the encoding that lines are looked for in. */
  lazy val lined: Boolean = {
    val (multi, ends, charset) = if (origin.format == "csv") (csv.multiLine, csv.lineSeparator, csv.charset)
      else (json.multiLine, json.lineSeparator, json.encoding.getOrElse("UTF-8"))
    !multi && ends.isEmpty && charset.equalsIgnoreCase("UTF-8")
  }

  /** Which columns are at fault, in words, or null where that can't be told. */
  def columns(row: InternalRow, text: String): String = origin.format match {
    case "json" => inJson(row, text)
    case "csv" => inCsv(row, text)
    case _ => null
  }

  /** What is wrong with the text as a whole, or null. */
  def text(text: String): String = if (origin.format != "json") null else try mapper.readTree(text) match {
    // Spark takes each element of an array for a row, or none of them.
    case _: ObjectNode | _: ArrayNode => null
    case other => s"not a JSON object: ${ParseFailure.short(other.toString)}"
  } catch {
    case e: JsonProcessingException =>
      val words = Option(e.getOriginalMessage).getOrElse("").replaceAll("\\s*\\(start marker at .*", "")
      s"malformed JSON: $words" + Option(e.getLocation).fold("")(l => s" at character ${l.getColumnNr}")
  }

  private def inCsv(row: InternalRow, text: String): String = {
    val found = new CsvParser(csv.asParserSettings).parseLine(text)
    if (found == null) null
    else if (found.length != known.length) s"${found.length} columns, the schema has ${known.length}"
    else describe(known.zip(found).collect {
      case ((a, i), value) if value != null && value != csv.nullValue && row.isNullAt(i) =>
        (a.name, value, a.dataType)
    })
  }

  private def inJson(row: InternalRow, text: String): String = try mapper.readTree(text) match {
    case o: ObjectNode =>
      describe(known.flatMap { case (a, i) => unread(a.name, a.dataType, o.get(a.name), row, i) })
    case _ => null
  } catch { case _: JsonProcessingException => null }

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

  private def describe(unread: Seq[(String, String, DataType)]): String =
    // Any text is a string: Spark has read nothing of this row at all.
    if (unread.isEmpty || unread.exists(_._3.isInstanceOf[StringType])) null
    else unread.map { case (name, value, kind) =>
      s"""column $name: "${ParseFailure.short(value)}" is not a valid ${kind.sql.toLowerCase}"""
    }.mkString("; ")
}

private object ParseFailure {
  def short(value: String): String = if (value.length <= 100) value else value.take(100) + "..."
}
