package org.apache.spark.sql.keyfold.rows.parsing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._

/** A format of texts that Spark parses into rows. */
trait TextFormat extends Serializable {
  /** Whether Spark's reader replaces what it can't decode by U+FFFD, so that different texts become equal. */
  def replacesUndecoded: Boolean = false

  /** Explains texts that are no rows of these columns; `options` are Spark's for the format. */
  def failure(columns: Seq[Attribute], options: Map[String, String], zone: String): ParseFailure
}

object TextFormat {
  private val byName: Map[String, TextFormat] = Map("json" -> JsonText, "csv" -> CsvText)

  /** None where texts of the format are not explained. */
  def named(name: String): Option[TextFormat] = byName.get(name)
}

/** Why a text is not a row of the schema. Spark only leaves the columns null that it could not read. */
trait ParseFailure {
  /** Whether a row is a line, in the encoding that lines are looked for in. */
  def lined: Boolean
  /** Which columns are at fault, in words, or null where that can't be told. */
  def columns(row: InternalRow, text: String): String
  /** What is wrong with the text as a whole, or null. */
  def text(text: String): String
}

object ParseFailure {
  /** Of rows that have no texts. */
  object Unknown extends ParseFailure {
    override def lined: Boolean = false
    override def columns(row: InternalRow, text: String): String = null
    override def text(text: String): String = null
  }

  def short(value: String): String = if (value.length <= 100) value else value.take(100) + "..."

  /** The columns that users see, with their places. */
  private[rows] def visible(columns: Seq[Attribute]): Seq[(Attribute, Int)] =
    columns.zipWithIndex.filterNot { case (a, _) => InternalColumns.hidden(a.name) }

  private[rows] def isLined(multiLine: Boolean, separator: Option[_], charset: String): Boolean =
    !multiLine && separator.isEmpty && charset.equalsIgnoreCase("UTF-8")

  /** Values that the text has and the row has not, in words: column, value, type. */
  private[rows] def describe(unread: Seq[(String, String, DataType)]): String =
    // Any text is a string: Spark has read nothing of this row at all.
    if (unread.isEmpty || unread.exists(_._3.isInstanceOf[StringType])) null
    else unread.map { case (name, value, kind) =>
      s"""column $name: "${short(value)}" is not a valid ${kind.sql.toLowerCase}"""
    }.mkString("; ")
}
