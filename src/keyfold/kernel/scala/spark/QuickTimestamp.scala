package org.apache.spark.sql.keyfold.spark

/**
 * Times in the form that most programs write, `2026-01-31T12:34:56.789Z`: with seconds, up to six digits of
 * their fraction, and an offset from UTC. Spark reads them too, by way of objects of `java.time`; what has
 * another form is left to it.
 */
object QuickTimestamp {
  /** For a text that is in another form, or no time at all. */
  val Other: Long = Long.MinValue

  private val DateAndTime = 19
  private val MaxFraction = 6
  // Spark's calendar is that of java.time; in these years nobody's differs.
  private val (firstYear, lastYear) = (1600, 9999)
  private val maxOffsetHours = 14

  /** Microseconds since 1970, or `Other`. */
  def micros(text: String): Long = {
    val seconds = secondsOf(text)
    if (seconds == Other) return Other
    var (at, fraction, digits) = (DateAndTime, 0, 0)
    if (text.charAt(at) == '.') {
      at += 1
      while (at < text.length && digit(text, at) >= 0) {
        if (digits == MaxFraction) return Other
        fraction = fraction * 10 + digit(text, at)
        digits += 1
        at += 1
      }
      if (digits == 0) return Other
    }
    while (digits < MaxFraction) { fraction *= 10; digits += 1 }
    val offset = offsetSeconds(text, at)
    if (offset == Other) Other else (seconds - offset) * 1000000L + fraction
  }

  /** Those of the date and time that a text begins with, as if in UTC; a zone must follow. */
  private def secondsOf(text: String): Long = {
    if (text.length <= DateAndTime || text.charAt(4) != '-' || text.charAt(7) != '-' ||
      (text.charAt(10) != 'T' && text.charAt(10) != ' ') || text.charAt(13) != ':' || text.charAt(16) != ':')
      return Other
    val year = two(text, 0) * 100 + two(text, 2)
    val (month, day) = (two(text, 5), two(text, 8))
    val (hour, minute, second) = (two(text, 11), two(text, 14), two(text, 17))
    // A text that is no number is below zero.
    if (two(text, 0) < 0 || two(text, 2) < 0 || year < firstYear || year > lastYear ||
      month < 1 || month > 12 || day < 1 || day > daysOf(year, month) || hour < 0 || hour > 23 ||
      minute < 0 || minute > 59 || second < 0 || second > 59) Other
    else epochDay(year, month, day) * 86400L + hour * 3600 + minute * 60 + second
  }

  /** What is left of the text, as an offset from UTC: `Z`, or `+01:00`. */
  private def offsetSeconds(text: String, at: Int): Long = {
    val left = text.length - at
    if (left == 1 && text.charAt(at) == 'Z') return 0L
    if (left != 6 || text.charAt(at + 3) != ':') return Other
    val (sign, hours, minutes) = (text.charAt(at), two(text, at + 1), two(text, at + 4))
    if ((sign != '+' && sign != '-') || hours < 0 || hours > maxOffsetHours || minutes < 0 || minutes > 59)
      Other
    else (hours * 3600L + minutes * 60L) * (if (sign == '-') -1 else 1)
  }

  private def digit(text: String, at: Int): Int = {
    val c = text.charAt(at)
    if (c >= '0' && c <= '9') c - '0' else -1
  }

  private def two(text: String, at: Int): Int = {
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
