package org.apache.spark.sql.keyfold.physical

class PartitionClockSuite extends munit.FunSuite {
  private var now = 1000L
  private def clock(idleMs: Option[Long] = None, begun: Map[String, Long] = Map.empty) =
    new PartitionClock(idleMs, begun, () => now)

  test("the stream is as far as its slowest partition") {
    val c = clock()
    assertEquals(c.advance(Map("t-0" -> 50L, "t-1" -> 10L), None), Some(10L))
    assertEquals(c.advance(Map("t-0" -> 90L), None), Some(10L))
    assertEquals(c.advance(Map("t-1" -> 60L), None), Some(60L))
  }

  test("a batch that is taken in again changes nothing, and times never go back") {
    val c = clock()
    c.advance(Map("t-0" -> 50L), None)
    assertEquals(c.advance(Map("t-0" -> 50L), None), Some(50L))
    assertEquals(c.advance(Map("t-0" -> 20L), None), Some(50L))
  }

  test("what an earlier run has reached counts, unless the partition is gone") {
    val c = clock(begun = Map("t-0" -> 5L, "t-9" -> 1L))
    assertEquals(c.advance(Map("t-1" -> 70L), None), Some(1L))
    c.retain(java.util.List.of("t-0", "t-1"))
    assertEquals(c.advance(Map("t-1" -> 70L), None), Some(5L))
  }

  test("an idle partition is ignored until it has rows again") {
    val c = clock(idleMs = Some(100L))
    c.advance(Map("t-0" -> 50L, "t-1" -> 10L), None)
    now += 100
    assertEquals(c.advance(Map("t-0" -> 60L), None), Some(60L))
    assert(c.report().contains("\"idle\":[\"t-1\"]"))
    assertEquals(c.advance(Map("t-1" -> 20L), None), Some(20L))
  }

  test("idleness is counted from zero after a restart") {
    val c = clock(idleMs = Some(100L), begun = Map("t-1" -> 10L))
    now += 50
    assertEquals(c.advance(Map("t-0" -> 60L), None), Some(10L))
  }

  test("a row of no partition advances all of them") {
    val c = clock()
    assertEquals(c.advance(Map.empty, None), None)
    c.advance(Map("t-0" -> 50L, "t-1" -> 10L), None)
    assertEquals(c.advance(Map.empty, Some(30L)), Some(30L))
    assertEquals(c.advance(Map("t-1" -> 40L), None), Some(40L))
  }

  test("the partition that holds the watermark is named, and since when") {
    val c = clock()
    c.advance(Map("t-0" -> 50L, "t-1" -> 10L), None)
    val since = now
    now += 500
    c.advance(Map("t-0" -> 60L), None)
    val held = s""""held_by":{"partition":"t-1","newest":10,"since":$since}"""
    assert(c.report().contains(held), c.report())
  }
}
