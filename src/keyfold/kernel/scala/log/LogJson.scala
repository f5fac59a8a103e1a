package org.apache.spark.sql.execution.keyfold.log

import java.io.IOException

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.Path

/** The JSON documents of a log. One that is not what it should be is reported with its file. */
private[log] object LogJson {
  /** The version of the format, which every document begins with. */
  val Layout = 1
  private val mapper = new ObjectMapper()

  def document(file: Path, content: Array[Byte]): JsonNode = {
    val document =
      try mapper.readTree(content)
      catch { case _: IOException => throw LogProblem.damaged(file, "is cut short or overwritten") }
    val layout = number(file, document, "layout")
    if (layout != Layout) {
      throw LogProblem.damaged(file, s"has layout $layout, and this version of keyfold reads layout $Layout")
    }
    document
  }

  def field(file: Path, document: JsonNode, name: String): JsonNode =
    Option(document.get(name)).getOrElse(throw LogProblem.damaged(file, s"has no field `$name`"))

  def number(file: Path, document: JsonNode, name: String): Long = {
    val found = field(file, document, name)
    if (found.isIntegralNumber) found.asLong
    else throw LogProblem.damaged(file, s"has no number in the field `$name`")
  }
}
