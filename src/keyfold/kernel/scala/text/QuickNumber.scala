package org.apache.spark.sql.keyfold.text

import java.nio.charset.StandardCharsets.ISO_8859_1

import com.fasterxml.jackson.core.io.NumberInput

/**
 * Decimal numbers as JSON has them, without an exponent: `-12.5`. One object serves one task; after `read` it
 * has the number.
 */
final class QuickNumber {
  /** All digits as one number, if they are few; how many there are, and how many of them behind the point. */
  private var (digits, length, places) = (0L, 0, 0)
  private var negative = false
  private var (text, from, until) = (Array.emptyByteArray, 0, 0)

  /** Whether the text is such a number. One that begins with a zero, such as 007, is not, nor is -0. */
  def read(text: Array[Byte], from: Int, until: Int): Boolean = {
    this.text = text
    this.from = from
    this.until = until
    negative = from < until && text(from) == '-'
    val first = if (negative) from + 1 else from
    var (at, point, found) = (first, -1, 0L)
    while (at < until) {
      val c = text(at)
      if (c >= '0' && c <= '9') found = found * 10 + (c - '0')
      else if (c == '.' && point < 0) point = at
      else return false
      at += 1
    }
    val whole = (if (point < 0) until else point) - first
    places = if (point < 0) 0 else until - point - 1
    digits = found
    length = whole + places
    whole > 0 && (point < 0 || places > 0) && (whole == 1 || text(first) != '0') &&
      !(negative && point < 0 && found == 0) && length <= QuickNumber.MaxLength
  }

  /** Whether the number is whole and surely fits into a long. */
  def isLong: Boolean = places == 0 && length <= QuickNumber.MaxDigits
  def long: Long = if (negative) -digits else digits

  /** The double that is nearest: the one that Java's own parser finds. */
  def double: Double =
    if (isLong) long.toDouble
    else if (length <= QuickNumber.MaxDigits && digits <= QuickNumber.MaxExact) {
      // Both are exact, so that the quotient is rounded once.
      val found = digits.toDouble / QuickNumber.powers(places)
      if (negative) -found else found
    } else NumberInput.parseDouble(new String(text, from, until - from, ISO_8859_1), true)
}

private object QuickNumber {
  /** So many digits fit into a long. */
  val MaxDigits = 18
  /** Parsers have bounds of their own on how long a number may be. */
  val MaxLength = 100
  /** Up to here every whole number is a double. */
  val MaxExact: Long = 1L << 53
  val powers: Array[Double] = Array.tabulate(MaxDigits + 1)(n => BigDecimal(10).pow(n).toDouble)
}
