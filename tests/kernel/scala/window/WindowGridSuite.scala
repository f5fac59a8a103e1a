package org.apache.spark.sql.keyfold.window

import java.time.format.DateTimeFormatter
import java.time.{Duration, Instant, ZoneId, ZonedDateTime}

import scala.util.Random

/** The k-th window is [start, end), and panes are cut at every start and end of a window. */
class WindowGridSuite extends munit.FunSuite {
  private val Minute = 60L * 1000 * 1000
  private def micros(text: String): Long = {
    val i = Instant.parse(text)
    i.getEpochSecond * 1000000L + i.getNano / 1000
  }

  test("a time is in the windows that begin at or before it and end after it, before 1970 too") {
    val chance = new Random(1)
    for (_ <- 1 to 300) {
      val (size, every) = (1 + chance.nextInt(20), 1 + chance.nextInt(20))
      val grid = WindowGrid(size * Minute, every * Minute, chance.nextInt(10) * Minute, None)
      val t = (chance.nextInt(20000) - 10000) * Minute / 7
      val holding = (-3000L to 3000L).map(_ + Math.floorDiv(t, every * Minute))
        .filter(k => grid.start(k) <= t && t < grid.end(k))
      assertEquals((grid.first(t) to grid.last(t)).toList, holding.toList, s"size $size, every $every, at $t")
    }
  }

  test("a pane is the same for all times between two neighbouring starts or ends, and never crosses one") {
    val chance = new Random(2)
    for (_ <- 1 to 300) {
      val (size, every) = (1 + chance.nextInt(20), 1 + chance.nextInt(20))
      val grid = WindowGrid(size * Minute, every * Minute, 0, None)
      val t = chance.nextInt(100000) * Minute / 13
      val around = Math.floorDiv(t, every * Minute)
      val cuts = (around - 50 to around + 50).flatMap(k => Seq(grid.start(k), grid.end(k)))
      assertEquals(grid.of(t), cuts.filter(_ <= t).max)
    }
  }

  test("a day in a zone has 23 or 25 hours when clocks change") {
    val zone = "Europe/Berlin"
    val days = WindowGrid(1440 * Minute, 1440 * Minute, 0, Some(zone))
    for ((day, hours) <- Seq("2026-03-29" -> 23L, "2026-10-25" -> 25L, "2026-06-01" -> 24L)) {
      val noon = micros(s"${day}T12:00:00Z")
      val k = days.first(noon)
      assertEquals(k, days.last(noon))
      val local = DateTimeFormatter.ISO_LOCAL_DATE_TIME.withZone(ZoneId.of(zone))
      val midnight = ZonedDateTime.parse(s"${day}T00:00:00", local)
      assertEquals(days.start(k), midnight.toEpochSecond * 1000000L)
      assertEquals(Duration.ofNanos((days.end(k) - days.start(k)) * 1000).toHours, hours)
    }
  }

  test("an hour that comes twice is two times of one line each, in order") {
    val quarters = WindowEdges(15 * Minute, 0, Some("Europe/Berlin"))
    val times = (0 until 16).map(n => micros("2026-10-24T23:00:00Z") + n * 15 * Minute)
    val lines = times.map(quarters.index)
    assertEquals(lines, lines.sorted)
    times.zip(lines).foreach { case (t, k) => assert(quarters.at(k) <= t && t < quarters.at(k + 1)) }
  }
}
