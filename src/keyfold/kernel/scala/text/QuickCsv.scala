package org.apache.spark.sql.keyfold.text

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Reads lines of CSV in the usual form: a value for each column, without escapes, in quotes or not. It
 * returns what Spark's parser would, or null, and then the line is Spark's to parse or to refuse.
 */
final class QuickCsv(schema: StructType, raw: String, delimiter: Byte) {
  private val columns = new QuickColumns(schema, raw)
  private var (text, end, at) = (Array.emptyByteArray, 0, 0)
  /** Where the value that was read begins and ends. */
  private var (from, until) = (0, 0)
  private var ascii = true

  /** The row of a line, which is valid until the next; null if the line is Spark's. */
  def read(bytes: Array[Byte], length: Int): InternalRow = {
    text = bytes
    end = length
    at = 0
    ascii = true
    // Spark leaves empty lines out.
    if (length == 0 || length > QuickColumns.MaxLine) return null
    columns.begin()
    val count = columns.length
    var column = 0
    // A line of nothing but delimiters, which Spark leaves out if these are white space.
    var blank = delimiter <= ' '
    while (column < count) {
      if (!readValue()) return null
      blank &= until == from
      // An empty value is null.
      if (until > from && !columns.set(column, text, from, until)) return null
      column += 1
      if (column < count && (at == end || text(at) != delimiter)) return null
      at += 1
    }
    if (blank || at != end + 1 || !isUtf8) null else columns.row
  }

  private def isUtf8: Boolean = ascii || UTF8String.fromBytes(text, 0, end).isValid

  private def readValue(): Boolean =
    if (at < end && text(at) == '"') readQuoted() else readBare()

  private def readBare(): Boolean = {
    from = at
    at = endOf(delimiter)
    until = at
    at >= 0 && !isPadded
  }

  private def readQuoted(): Boolean = {
    at += 1
    from = at
    until = endOf('"')
    at = until + 1
    // Whether a value in quotes may be empty, or more may follow, is Spark's to say.
    until > from && until < end && !isPadded && (at == end || text(at) == delimiter)
  }

  /** Where the value that begins here ends: at this character, or with the line; -1 if it is unusual. */
  private def endOf(mark: Byte): Int = {
    var (i, allAscii) = (at, true)
    while (i < end && text(i) != mark) {
      val c = text(i)
      if (c < 0) allAscii = false else if (c < ' ' || c == '"' || c == '\\') return -1
      i += 1
    }
    ascii &= allAscii
    i
  }

  /** Spaces at the ends of a value may be a part of it. */
  private def isPadded: Boolean = until > from && (text(from) == ' ' || text(until - 1) == ' ')
}
