package org.apache.spark.sql.keyfold.text

import java.time.{LocalDateTime, ZoneOffset}
import java.time.format.DateTimeFormatter

import scala.util.Random

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.unsafe.types.UTF8String

/** The quick way for times gives what Spark gives, or leaves the text to Spark. */
class QuickTimestampSuite extends munit.FunSuite {
  private val elsewhere = java.time.ZoneId.of("Asia/Kathmandu")

  private def sparks(text: String): Option[Long] =
    DateTimeUtils.stringToTimestamp(UTF8String.fromString(text), elsewhere)

  private def quick(text: String): Option[Long] = {
    val bytes = s"<$text>".getBytes("UTF-8")
    Some(QuickTimestamp.micros(bytes, 1, bytes.length - 1)).filter(_ != QuickTimestamp.Other)
  }

  test("a time in the usual form is Spark's, whatever the day, fraction and offset") {
    val random = new Random(7)
    val (first, last) = (LocalDateTime.of(1600, 1, 1, 0, 0), LocalDateTime.of(9999, 12, 31, 23, 59))
    val seconds = last.toEpochSecond(ZoneOffset.UTC) - first.toEpochSecond(ZoneOffset.UTC)
    for (_ <- 1 to 20000) {
      val date = first.plusSeconds((random.nextDouble() * seconds).toLong)
      val digits = random.nextInt(7)
      val fraction = if (digits == 0) "" else "." + Seq.fill(digits)(random.nextInt(10)).mkString
      val offset = random.nextInt(4) match {
        case 0 | 1 => "Z"
        case n => f"${if (n == 2) "+" else "-"}${random.nextInt(15)}%02d:${random.nextInt(60)}%02d"
      }
      val form = s"yyyy-MM-dd${if (random.nextBoolean()) "'T'" else " "}HH:mm:ss"
      val text = date.format(DateTimeFormatter.ofPattern(form)) + fraction + offset
      assert(quick(text).isDefined, text)
      assertEquals(quick(text), sparks(text), text)
    }
  }

  test("a text that is not a time, or has another form, is left to Spark") {
    val others = Seq("", "Z", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-02-29T00:00:00Z",
      "2025-04-31T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z",
      "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.Z",
      "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00z", "2026-01-01T00:00:00UTC",
      "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+15:00",
      "2026-01-01T00:00:00+01:60", "2026-01-01T00:00:00Z ", " 2026-01-01T00:00:00Z", "2026-01-01t00:00:00Z",
      "-026-01-01T00:00:00Z", "+026-01-01T00:00:00Z", "2026-1-01T00:00:00ZZ", "2026/01/01T00:00:00Z",
      "1599-12-31T00:00:00Z", "\u0662026-01-01T00:00:00Z", "2026-01-01T00:00:00.12", "20a6-01-01T00:00:00Z")
    others.foreach(text => assertEquals(quick(text), None, text))
    // And none of those that it takes is one that Spark refuses.
    val random = new Random(11)
    val good = "2026-02-28T23:59:59.250+05:45"
    for (_ <- 1 to 20000) {
      val changed = good.updated(random.nextInt(good.length), (random.nextInt(94) + 33).toChar)
      quick(changed).foreach(found => assertEquals(sparks(changed), Some(found), changed))
    }
  }
}
