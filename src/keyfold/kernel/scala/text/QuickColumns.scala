package org.apache.spark.sql.keyfold.text

import java.util.{Arrays, Locale}

import scala.annotation.switch

import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Values in the form that most programs write, read from the bytes of a line into a row that is used again
 * for the next line. What has another form is left to Spark: `set` is false then, and the whole line is
 * Spark's to parse. Columns are those of the schema but `raw`, which stays null.
 */
final class QuickColumns(schema: StructType, raw: String) {
  val row = new SpecificInternalRow(schema.map(_.dataType))
  private val at = schema.indices.filter(i => schema(i).name != raw).toArray
  private val kinds = at.map(i => QuickColumns.kinds(schema(i).dataType))
  private val number = new QuickNumber

  def length: Int = at.length
  def names: Array[Array[Byte]] = at.map(i => UTF8String.fromString(schema(i).name).getBytes)

  def begin(): Unit = {
    var i = 0
    while (i < at.length) { row.setNullAt(at(i)); i += 1 }
  }

  /** Whether a column's values are texts, which JSON has in quotes. */
  def isText(column: Int): Boolean = kinds(column) >= QuickColumns.Timestamp

  /** Sets a column from a part of the line, which is ASCII, except for strings. */
  def set(column: Int, text: Array[Byte], from: Int, until: Int): Boolean = {
    val i = at(column)
    (kinds(column): @switch) match {
      case QuickColumns.Text => row.update(i, UTF8String.fromBytes(text, from, until - from)); true
      case QuickColumns.Double =>
        val read = number.read(text, from, until)
        if (read) row.setDouble(i, number.double)
        read
      case QuickColumns.Timestamp =>
        val micros = QuickTimestamp.micros(text, from, until)
        if (micros != QuickTimestamp.Other) row.setLong(i, micros)
        micros != QuickTimestamp.Other
      case QuickColumns.Date =>
        val days = QuickTimestamp.days(text, from, until)
        if (days != QuickTimestamp.Other) row.setInt(i, days.toInt)
        days != QuickTimestamp.Other
      case QuickColumns.Boolean => setBoolean(i, text, from, until)
      case whole => number.read(text, from, until) && number.isLong && setWhole(i, whole, number.long)
    }
  }

  private def setWhole(i: Int, kind: Int, value: Long): Boolean = kind match {
    case QuickColumns.Long => row.setLong(i, value); true
    case QuickColumns.Int => row.setInt(i, value.toInt); value.isValidInt
    case QuickColumns.Short => row.setShort(i, value.toShort); value.isValidShort
    case QuickColumns.Byte => row.setByte(i, value.toByte); value.isValidByte
  }

  private def setBoolean(i: Int, text: Array[Byte], from: Int, until: Int): Boolean = {
    val isTrue = QuickColumns.equal(text, from, until, QuickColumns.True)
    row.setBoolean(i, isTrue)
    isTrue || QuickColumns.equal(text, from, until, QuickColumns.False)
  }

  /** Whether a text of numbers and words is one that every JSON parser accepts. */
  def isPlain(text: Array[Byte], from: Int, until: Int): Boolean =
    number.read(text, from, until) || QuickColumns.equal(text, from, until, QuickColumns.True) ||
      QuickColumns.equal(text, from, until, QuickColumns.False)
}

object QuickColumns {
  /** Lines that are longer are Spark's, with the bounds that it and its parsers have. */
  val MaxLine: Int = 1 << 14
  /** Which columns of a line were seen is kept in a long. */
  private val MaxColumns = 64

  // By number, so that a value finds its way by a jump. Those from `Timestamp` on are texts.
  private final val Byte = 0
  private final val Short = 1
  private final val Int = 2
  private final val Long = 3
  private final val Double = 4
  private final val Boolean = 5
  private final val Timestamp = 6
  private final val Date = 7
  private final val Text = 8
  private val kinds: Map[DataType, Int] = Map(
    ByteType -> Byte, ShortType -> Short, IntegerType -> Int, LongType -> Long, DoubleType -> Double,
    BooleanType -> Boolean, TimestampType -> Timestamp, DateType -> Date, StringType -> Text)

  // They say which files are read and when, or are keyfold's own, but not how lines become rows.
  private val harmless = Set("path", "header", "columnnameofcorruptrecord", "timezone", "recursivefilelookup",
    "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst", "filenameonly", "cleansource",
    "sourcearchivedir", "pathglobfilter", "modifiedbefore", "modifiedafter", "ignoremissingfiles",
    "ignorecorruptfiles", "returning_batch")

  private[text] val True = ascii("true")
  private[text] val False = ascii("false")
  private[text] val Null = ascii("null")
  private def ascii(word: String): Array[Byte] = word.getBytes("US-ASCII")

  /** Whether all columns have types that can be read so, and Spark parses lines by its defaults. */
  def canRead(schema: StructType, options: Map[String, String]): Boolean =
    schema.nonEmpty && schema.length <= MaxColumns &&
      schema.forall(f => kinds.contains(f.dataType) && f.metadata == Metadata.empty) &&
      options.keys.forall(name => harmless(name.toLowerCase(Locale.ROOT)))

  private[text] def equal(text: Array[Byte], from: Int, until: Int, word: Array[Byte]): Boolean =
    Arrays.equals(text, from, until, word, 0, word.length)
}
