package org.apache.spark.sql.keyfold.text

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Reads lines of JSON in the usual form: one object, whose values are numbers, words and texts without
 * escapes. It returns what Spark's parser would, or null, and then the line is Spark's to parse or to refuse.
 */
final class QuickJson(schema: StructType, raw: String) {
  private val columns = new QuickColumns(schema, raw)
  private val names = columns.names
  private var (text, end, at) = (Array.emptyByteArray, 0, 0)
  /** Where the value that was read begins and ends, and whether it was in quotes. */
  private var (from, until, quoted) = (0, 0, false)
  /** The columns that the line has had, and the one that comes next if it is like the line before. */
  private var (seen, next) = (0L, 0)

  /** The row of a line, which is valid until the next; null if the line is Spark's. */
  def read(bytes: Array[Byte], length: Int): InternalRow = {
    text = bytes
    end = length
    at = 0
    seen = 0L
    next = 0
    if (length > QuickColumns.MaxLine || !isNext('{')) return null
    columns.begin()
    while (readField()) {
      if (isNext('}')) return if (isAtEnd) columns.row else null
      if (!isNext(',')) return null
    }
    null
  }

  private def readField(): Boolean = {
    if (!isNext('"') || !readText()) return false
    val column = columnOf(from, until)
    if (!isNext(':') || !readValue()) return false
    if (column < 0) quoted || isNull || columns.isPlain(text, from, until)
    else {
      val bit = 1L << column
      val isNew = (seen & bit) == 0
      seen |= bit
      next = column + 1
      isNew && (if (quoted) columns.isText(column) && columns.set(column, text, from, until)
        else isNull || (!columns.isText(column) && columns.set(column, text, from, until)))
    }
  }

  private def isNull: Boolean = !quoted && QuickColumns.equal(text, from, until, QuickColumns.Null)

  private def readValue(): Boolean = {
    quoted = isNext('"')
    if (quoted) readText()
    else {
      var i = at
      while (i < end && isWord(text(i))) i += 1
      from = at
      until = i
      at = i
      until > from
    }
  }

  /** What numbers, `true`, `false` and `null` are made of. */
  private def isWord(c: Byte): Boolean =
    (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-'

  /** Reads up to the closing quote. A text with escapes or control characters, or no UTF-8, is Spark's. */
  private def readText(): Boolean = {
    var (i, ascii) = (at, true)
    while (i < end && text(i) != '"') {
      val c = text(i)
      if (c < 0) ascii = false else if (c < ' ' || c == '\\') return false
      i += 1
    }
    from = at
    until = i
    at = i + 1
    i < end && (ascii || UTF8String.fromBytes(text, from, until - from).isValid)
  }

  private def columnOf(from: Int, until: Int): Int = {
    if (next < names.length && QuickColumns.equal(text, from, until, names(next))) return next
    var i = names.length - 1
    while (i >= 0 && !QuickColumns.equal(text, from, until, names(i))) i -= 1
    i
  }

  /** Whether this is the next character behind spaces; then it is read. */
  private def isNext(c: Char): Boolean = {
    skipSpaces()
    val found = at < end && text(at) == c
    if (found) at += 1
    found
  }

  private def isAtEnd: Boolean = { skipSpaces(); at == end }

  private def skipSpaces(): Unit =
    while (at < end && (text(at) == ' ' || text(at) == '\t' || text(at) == '\r' || text(at) == '\n')) at += 1
}
