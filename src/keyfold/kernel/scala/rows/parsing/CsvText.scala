package org.apache.spark.sql.keyfold.rows.parsing

import com.univocity.parsers.csv.CsvParser

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.expressions.Attribute

/** Records of comma-separated values. */
object CsvText extends TextFormat {
  override def replacesUndecoded: Boolean = true

  override def failure(columns: Seq[Attribute], options: Map[String, String], zone: String): ParseFailure =
    new CsvFailure(columns, new CSVOptions(options, columnPruning = false, zone))
}

private class CsvFailure(source: Seq[Attribute], csv: CSVOptions) extends ParseFailure {
  private val known = ParseFailure.visible(source)

  override def lined: Boolean = ParseFailure.isLined(csv.multiLine, csv.lineSeparator, csv.charset)

  override def columns(row: InternalRow, text: String): String = {
    val found = new CsvParser(csv.asParserSettings).parseLine(text)
    if (found == null) null
    else if (found.length != known.length) s"${found.length} columns, the schema has ${known.length}"
    else ParseFailure.describe(known.zip(found).collect {
      case ((a, i), value) if value != null && value != csv.nullValue && row.isNullAt(i) =>
        (a.name, value, a.dataType)
    })
  }

  override def text(text: String): String = null
}
