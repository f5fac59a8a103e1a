package org.apache.spark.sql.keyfold.rows.side_output

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.log.SideOutputCounts
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Side outputs survive the bytes of a row, and say the same there. */
class SideOutputSuite extends munit.FunSuite {
  private val schema = new StructType().add("n", LongType).add("side", SideOutput.schema)

  /** Through the bytes of a row, as the shuffle sends it. */
  private def sent(side: InternalRow): InternalRow =
    SideOutput.of(UnsafeProjection.create(schema)(InternalRow(7L, side)).copy(), 1)
  private def text(side: InternalRow, field: String): String = {
    val at = SideOutput.schema.fieldIndex(field)
    if (side.isNullAt(at)) null else side.getString(at)
  }
  private def long(side: InternalRow, field: String): Option[Long] = {
    val at = SideOutput.schema.fieldIndex(field)
    if (side.isNullAt(at)) None else Some(side.getLong(at))
  }
  private def windows(side: InternalRow): Seq[(Long, Long)] = {
    val all = side.getArray(SideOutput.schema.fieldIndex("windows"))
    Seq.tabulate(all.numElements())(i => (all.getStruct(i, 2).getLong(0), all.getStruct(i, 2).getLong(1)))
  }

  test("a row without a side output has none") {
    assertEquals(sent(null), null)
  }

  test("a rejected row has its reason, text, stream and place, and nothing else") {
    val place = FileLocation("/in/a.json", line = Some(3))
    val side = sent(
      SideOutput.rejected("does not parse", "{\u0000ä", Some("orders"), Some("malformed JSON"), Some(place)))
    assertEquals(SideOutput.kind(side), SideOutput.Rejected)
    assertEquals(Seq("reason", "raw", "stream", "cause", "file").map(text(side, _)),
      Seq("does not parse", "{\u0000ä", "orders", "malformed JSON", "/in/a.json"))
    assertEquals(Seq("line", "byte", "event_time", "watermark", "count").map(long(side, _)),
      Seq(Some(3L), None, None, None, None))
    assert(!SideOutput.isReplayed(side) && !SideOutput.isPartialCount(side))
  }

  test("a late row lists at most a hundred windows, and counts all of them") {
    val missed = (0L until 130L).map(n => (n, n + 60))
    val side = sent(SideOutput.late("closed", "{}", None, 5, 1000, missed.length, missed, 189))
    assertEquals(SideOutput.kind(side), SideOutput.Late)
    assertEquals(Seq("event_time", "watermark", "missed", "last_end").map(long(side, _)),
      Seq(5L, 1000L, 130L, 189L).map(Option(_)))
    assertEquals(windows(side), missed.take(SideOutput.MaxWindows))
    assertEquals(text(side, "stream"), null)
  }

  test("a late row without a watermark has none") {
    val side = sent(SideOutput.late("old", "{}", None, 5, EventTime.NoWatermark, 1, Seq((1L, 9L)), 0))
    assertEquals(long(side, "watermark"), None)
  }

  test("a replayed row whose windows are no longer kept is a late row for its first watermark") {
    val replayed = sent(SideOutput.replayed("{}", Some("orders"), 5, 1000))
    assert(SideOutput.isReplayed(replayed))
    assertEquals(SideOutput.watermark(replayed), 1000L)
    val side = sent(SideOutput.expiredReplay(replayed, Seq((0L, 60L), (30L, 90L))))
    assertEquals(SideOutput.kind(side), SideOutput.Late)
    assertEquals((text(side, "raw"), text(side, "stream")), ("{}", "orders"))
    assertEquals(Seq("event_time", "watermark", "missed", "last_end").map(long(side, _)),
      Seq(5L, 1000L, 2L, 90L).map(Option(_)))
    assertEquals(windows(side), Seq((0L, 60L), (30L, 90L)))
  }

  test("only counts that no step has claimed are added up") {
    val partial = sent(SideOutput.partialCount(40))
    assert(SideOutput.isPartialCount(partial))
    assertEquals(SideOutput.count(partial), 40L)
    assert(!SideOutput.isPartialCount(sent(SideOutput.duplicates("distinct id", 40))))
    assert(!SideOutput.isPartialCount(sent(SideOutput.duplicate("distinct id", "{}"))))
  }

  test("dropped partial matches are counted under a name of their own") {
    val counts = new SideOutputCounts
    counts.addDroppedPartials(sent(SideOutput.droppedPartials(40)))
    counts.addDuplicates(sent(SideOutput.duplicates("distinct id", 2)))
    counts.add(counts.result)
    assertEquals((counts.result.droppedPartial, counts.result.duplicate), (80L, 4L))
    val side = sent(SideOutput.droppedPartials(1))
    assert(SideOutput.isDroppedPartial(side) && !SideOutput.isDuplicate(side))
  }

  test("a rejected file has its reason once, and the rows of each part") {
    val whole = sent(SideOutput.rejectedFile("/a.csv", Some("s"), 7, "the header is ...", "x,y"))
    val part = sent(SideOutput.rejectedFile("/a.csv", Some("s"), 5))
    assertEquals((SideOutput.kind(whole), text(whole, "reason"), SideOutput.count(whole)),
      (SideOutput.File, "the header is ...", 7L))
    assertEquals(SideOutput.kind(part), SideOutput.File)
    assertEquals((text(part, "reason"), SideOutput.count(part)), (null, 5L))
  }

  test("the parts of a rejected file, in any order, are one side output") {
    def part(file: String, rows: Long, reason: String, raw: String) =
      sent(SideOutput.rejectedFile(file, Some("s"), rows, reason, raw))
    val parts = Seq(part("/a.csv", 5, null, null), part("/b.csv", 2, "no header", null),
      part("/a.csv", 7, "the header is ...", "x,y"), part("/a.csv", 1, null, null))
    val found = RejectedFiles.merged(parts.iterator)
    assertEquals(found.map(side => (text(side, "stream"), text(side, "file"), SideOutput.count(side))),
      Seq(("s", "/a.csv", 13L), ("s", "/b.csv", 2L)))
    assertEquals(found.map(side => (text(side, "reason"), text(side, "raw"))),
      Seq(("the header is ...", "x,y"), ("no header", null)))
    assert(found.forall(SideOutput.isFile))
  }

  test("reasons that differ in values of the row are of one kind") {
    val reasons = Seq("\"n\" is no int: 'x', line 3", "\"m\" is no int: 'y y', line -1.5e3")
    assertEquals(reasons.map(RejectionKind.of).distinct, Seq("... is no int: ..., line ..."))
  }

  test("a row that must not be rejected stops the query with its reason and text") {
    val columns = Seq(AttributeReference("k", StringType)())
    def builder(keepRejected: Boolean) =
      new SideOutputBuilder(columns, columns, SideOutputSettings(keepRejected, "UTC", Some("s")))
    val row = InternalRow(UTF8String.fromString("a"))
    assertEquals(SideOutput.raw(builder(keepRejected = true).rejected(row, "bad")), "{\"k\":\"a\"}")
    val error = intercept[SparkException](builder(keepRejected = false).rejected(row, "bad"))
    assertEquals(error.getCondition, "KEYFOLD_REJECTED_ROW")
    assertEquals(error.getMessageParameters.get("reason"), "bad")
    assertEquals(error.getMessageParameters.get("row"), "{\"k\":\"a\"}")
  }
}
