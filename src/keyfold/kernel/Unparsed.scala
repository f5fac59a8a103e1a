package org.apache.spark.sql.keyfold

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import com.univocity.parsers.csv.CsvParser
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.paths.SparkPath
import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.json.JSONOptions
import org.apache.spark.sql.execution.datasources.CodecStreams
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.apache.hadoop.io.Text
import org.apache.hadoop.util.LineReader

/** The rejected rows of a source: also why a text does not parse, and in which file it stands. */
class SourceRejects(gate: Gate) extends Rejects(gate.visible, gate.source, gate.keep, gate.zone, gate.origin.stream) {
  private lazy val unparsed = new Unparsed(gate)
  private var (lines, splitOf) = (null: InputLines, null: UTF8String)
  private var (file, fileOf) = (Nil: Seq[(String, Any)], UTF8String.EMPTY_UTF8)

  /** A row of which Spark made no more than its text. */
  def unparsed(row: InternalRow, raw: String): UTF8String = {
    val why = unparsed.columns(row, raw)
    val cause = if (why == null) Option(unparsed.text(raw)).map("cause" -> _) else None
    of(if (why == null) "does not parse" else s"does not parse: $why", raw, cause.toSeq ++ inFile() ++ inLine(raw))
  }

  override protected def inFile(): Seq[(String, Any)] = {
    val url = if (gate.origin.files) InputFileBlockHolder.getInputFilePath else UTF8String.EMPTY_UTF8
    if (url ne fileOf) {
      fileOf = url
      file = if (url.numBytes == 0) Nil else Seq("file" -> InputFile.shown(url.toString))
    }
    file
  }

  private def inLine(raw: String): Seq[(String, Any)] = if (!gate.origin.files || !unparsed.lined) Nil else {
    val url = InputFileBlockHolder.getInputFilePath
    // The file is read a second time; where that fails the row is rejected without its line.
    try {
      if (url ne splitOf) {
        if (lines != null) lines.close()
        splitOf = url
        lines = null
        lines = if (url.numBytes == 0) null else new InputLines(url.toString, InputFileBlockHolder.getStartOffset)
      }
      if (lines == null) Nil else lines.of(raw).toSeq
    } catch { case _: java.io.IOException => lines = null; Nil }
  }
}

/** Why a text is no row of the schema. Spark leaves those columns null that it could not read, and says no more. */
class Unparsed(gate: Gate) {
  import gate.origin
  private lazy val csv = new CSVOptions(origin.options, columnPruning = false, gate.zone)
  private lazy val json = new JSONOptions(origin.options, gate.zone, Names.Raw)
  private lazy val mapper = new ObjectMapper(json.buildJsonFactory())
  private val known = gate.source.zipWithIndex.filterNot { case (a, _) => Names.hidden(a.name) }

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
    case other => s"no JSON object: ${Unparsed.short(other.toString)}"
  } catch {
    case e: JsonProcessingException =>
      val words = Option(e.getOriginalMessage).getOrElse("").replaceAll("\\s*\\(start marker at .*", "")
      s"no JSON: $words" + Option(e.getLocation).fold("")(l => s" at character ${l.getColumnNr}")
  }

  private def inCsv(row: InternalRow, text: String): String = {
    val found = new CsvParser(csv.asParserSettings).parseLine(text)
    if (found == null) null
    else if (found.length != known.length) s"${found.length} columns, the schema has ${known.length}"
    else said(known.zip(found).collect {
      case ((a, i), value) if value != null && value != csv.nullValue && row.isNullAt(i) => (a.name, value, a.dataType)
    })
  }

  private def inJson(row: InternalRow, text: String): String = try mapper.readTree(text) match {
    case o: ObjectNode => said(known.flatMap { case (a, i) => unread(a.name, a.dataType, o.get(a.name), row, i) })
    case _ => null
  } catch { case _: JsonProcessingException => null }

  /** Values that the text has and the row has not. */
  private def unread(name: String, kind: DataType, value: JsonNode, row: InternalRow, at: Int): Seq[(String, String, DataType)] =
    if (value == null || value.isNull) Nil
    else if (row.isNullAt(at)) Seq((name, if (value.isTextual) value.asText else value.toString, kind))
    else (kind, value) match {
      case (s: StructType, o: ObjectNode) =>
        val inner = row.getStruct(at, s.length)
        s.fields.toSeq.zipWithIndex.flatMap { case (f, i) => unread(s"$name.${f.name}", f.dataType, o.get(f.name), inner, i) }
      case _ => Nil
    }

  private def said(unread: Seq[(String, String, DataType)]): String =
    // Any text is a string: Spark has read nothing of this row at all.
    if (unread.isEmpty || unread.exists(_._3.isInstanceOf[StringType])) null
    else unread.map { case (name, value, kind) => s"""column $name: "${Unparsed.short(value)}" is no ${kind.sql.toLowerCase}""" }.mkString("; ")
}

private object Unparsed {
  def short(value: String): String = if (value.length <= 100) value else value.take(100) + "..."
}

/**
 * Where lines stand in a file, or in a part of one, that are asked for in the order in which it has them: by their number,
 * or in a part that does not begin the file by their first byte. The file is read once more, as far as there are such lines.
 */
class InputLines(url: String, from: Long) {
  private val path = SparkPath.fromUrlString(url).toPath
  private val conf = SparkHadoopUtil.get.conf
  private val in = if (from == 0) CodecStreams.createInputStreamWithCloseResource(conf, path) else {
    val file = path.getFileSystem(conf).open(path)
    file.seek(from)
    file
  }
  private val (reader, line) = (new LineReader(in), new Text)
  // The line that a part begins in, or with, belongs to the part before.
  private var (at, number, lost) = (if (from == 0) 0L else from + reader.readLine(line), 0L, false)
  org.apache.spark.TaskContext.get().addTaskCompletionListener[Unit](_ => close())

  def of(text: String): Option[(String, Any)] = {
    val wanted = new Text(text)
    while (!lost) {
      val (begins, read) = (at, reader.readLine(line))
      at += read
      number += 1
      if (read == 0) { lost = true; close() } else if (line == wanted) return Some(if (from == 0) "line" -> number else "byte" -> begins)
    }
    None
  }

  def close(): Unit = reader.close()
}

object InputFile {
  /** A file as its user knows it. */
  def shown(url: String): String = {
    val uri = SparkPath.fromUrlString(url).toPath.toUri
    if (uri.getScheme == null || uri.getScheme == "file") uri.getPath else uri.toString
  }
}
