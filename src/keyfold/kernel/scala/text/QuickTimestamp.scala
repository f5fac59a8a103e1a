package org.apache.spark.sql.keyfold.text

/**
 * Times in the form that most programs write, `2026-01-31T12:34:56.789Z`: with seconds, up to six digits of
 * their fraction, and an offset from UTC; and dates, `2026-01-31`. Spark reads them too, by way of objects of
 * `java.time`; what has another form is left to it.
 */
object QuickTimestamp {
  /** For a text that is in another form, or no time at all. */
  val Other: Long = Long.MinValue

  private val Date = 10
  private val DateAndTime = 19
  private val MaxFraction = 6
  // Spark's calendar is that of java.time; in these years nobody's differs.
  private val (firstYear, lastYear) = (1600, 9999)
  private val maxOffsetHours = 14

  /** Microseconds since 1970, or `Other`; the text is ASCII. */
  def micros(text: Array[Byte], from: Int, until: Int): Long = {
    val seconds = secondsOf(text, from, until)
    if (seconds == Other) return Other
    var (at, fraction, digits) = (from + DateAndTime, 0, 0)
    if (text(at) == '.') {
      at += 1
      while (at < until && digit(text, at) >= 0) {
        if (digits == MaxFraction) return Other
        fraction = fraction * 10 + digit(text, at)
        digits += 1
        at += 1
      }
      if (digits == 0) return Other
    }
    while (digits < MaxFraction) { fraction *= 10; digits += 1 }
    val offset = offsetSeconds(text, at, until)
    if (offset == Other) Other else (seconds - offset) * 1000000L + fraction
  }

  /** Days since 1970 of a date such as `2026-01-31`, or `Other`. */
  def days(text: Array[Byte], from: Int, until: Int): Long =
    if (until - from == Date) dayOf(text, from) else Other

  /** Those of the date and time that a text begins with, as if in UTC; a zone must follow. */
  private def secondsOf(text: Array[Byte], from: Int, until: Int): Long = {
    if (until - from <= DateAndTime || (text(from + 10) != 'T' && text(from + 10) != ' ') ||
      text(from + 13) != ':' || text(from + 16) != ':') return Other
    val day = dayOf(text, from)
    val (hour, minute, second) = (two(text, from + 11), two(text, from + 14), two(text, from + 17))
    // A text that is not a number is below zero.
    if (day == Other || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) Other
    else day * 86400L + hour * 3600 + minute * 60 + second
  }

  private def dayOf(text: Array[Byte], from: Int): Long = {
    if (text(from + 4) != '-' || text(from + 7) != '-') return Other
    val (century, ofCentury) = (two(text, from), two(text, from + 2))
    val (year, month, day) = (century * 100 + ofCentury, two(text, from + 5), two(text, from + 8))
    if (century < 0 || ofCentury < 0 || year < firstYear || year > lastYear ||
      month < 1 || month > 12 || day < 1 || day > daysOf(year, month)) Other
    else epochDay(year, month, day)
  }

  /** What is left of the text, as an offset from UTC: `Z`, or `+01:00`. */
  private def offsetSeconds(text: Array[Byte], at: Int, until: Int): Long = {
    val left = until - at
    if (left == 1 && text(at) == 'Z') return 0L
    if (left != 6 || text(at + 3) != ':') return Other
    val (sign, hours, minutes) = (text(at), two(text, at + 1), two(text, at + 4))
    if ((sign != '+' && sign != '-') || hours < 0 || hours > maxOffsetHours || minutes < 0 || minutes > 59)
      Other
    else (hours * 3600L + minutes * 60L) * (if (sign == '-') -1 else 1)
  }

  private def digit(text: Array[Byte], at: Int): Int = {
    val c = text(at)
    if (c >= '0' && c <= '9') c - '0' else -1
  }

  private def two(text: Array[Byte], at: Int): Int = {
    val (tens, ones) = (digit(text, at), digit(text, at + 1))
    if (tens < 0 || ones < 0) -1 else tens * 10 + ones
  }

  private def daysOf(year: Int, month: Int): Int = month match {
    case 2 => if (isLeap(year)) 29 else 28
    case 4 | 6 | 9 | 11 => 30
    case _ => 31
  }

  private def isLeap(year: Int) = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)

  /** Days since 1970. The year begins in March, so that the day that some years have more is its last. */
  private def epochDay(year: Int, month: Int, day: Int): Long = {
    val y = if (month > 2) year else year - 1
    val dayOfYear = (153 * (if (month > 2) month - 3 else month + 9) + 2) / 5 + day - 1
    y * 365L + y / 4 - y / 100 + y / 400 + dayOfYear - 719468L
  }
}
