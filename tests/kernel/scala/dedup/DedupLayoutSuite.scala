package org.apache.spark.sql.keyfold.dedup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection}
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows as they are shuffled and stored for dedup, and the counting of duplicates. */
class DedupLayoutSuite extends munit.FunSuite {
  private val input = Seq("bucket" -> IntegerType, "id" -> StringType, "id" -> StringType, "n" -> LongType,
    "stamp" -> OrderStamp.schema, "side" -> SideOutput.schema)
    .map { case (name, t) => AttributeReference(name, t)() }
  private val layout = DedupLayout(input, keys = 1, columns = 2, timed = true)
  private val untimed = layout.copy(timed = false)
  private def text(s: String): UTF8String = UTF8String.fromString(s)
  private def row(side: InternalRow): InternalRow = UnsafeProjection.create(
    StructType(input.map(a => StructField(a.name, a.dataType))))(
    InternalRow(3, text("k"), text("k"), 5L, InternalRow(1000L, 2L), side)).copy()

  test("a shuffled row has its columns by name") {
    assertEquals(layout.key, Seq(input(1)))
    assertEquals(layout.row, Seq(input(2), input(3)))
    assertEquals((layout.stamp, layout.sideOutput), (4, 5))
    assertEquals(layout.eventTime(row(null)), 1000L)
  }

  test("a kept row continues with its columns, its time if it has one, and no side output") {
    val kept = UnsafeProjection.create(layout.keptRow, input)(row(null))
    assertEquals((kept.numFields, kept.getString(0), kept.getLong(1), kept.getLong(2)), (4, "k", 5L, 1000L))
    assert(kept.isNullAt(3))
    assertEquals(UnsafeProjection.create(untimed.keptRow, input)(row(null)).numFields, 3)
  }

  test("a side output takes the place of the row's columns") {
    val rejected = row(SideOutput.rejected("why", "raw", None))
    val side = UnsafeProjection.create(layout.sideOutputRow, input)(rejected)
    assert(side.isNullAt(0) && side.isNullAt(1))
    assertEquals((side.getLong(2), SideOutput.raw(SideOutput.of(side, 3))), (1000L, "raw"))
  }

  test("kept times come back") {
    for (times <- Seq(Array.empty[Long], Array(5L), Array(7L, -3L, Long.MaxValue))) {
      val stored = UnsafeProjection.create(KeptTimesLayout.schema)(KeptTimesLayout.encode(times)).copy()
      assertEquals(KeptTimesLayout.decode(stored).toSeq, times.toSeq)
    }
    assertEquals(KeptTimesLayout.decode(null).toSeq, Nil)
  }

  private def count(rows: InternalRow*): Seq[InternalRow] =
    DuplicateCounter("ids", 1)(0, rows.iterator).toList
  private def counted(n: Long): InternalRow = InternalRow(null, SideOutput.partialCount(n))

  test("the counts of a partition become one side output at its end") {
    val (kept, other) = (InternalRow(1L, null), InternalRow(null, SideOutput.duplicate("others", "raw")))
    val Seq(first, second, total) = count(counted(2), kept, counted(40), other)
    assert((first eq kept) && (second eq other))
    val side = SideOutput.of(total, 1)
    assert(total.isNullAt(0) && !SideOutput.isPartialCount(side))
    assertEquals((SideOutput.kind(side), SideOutput.count(side)), (SideOutput.Duplicate, 42L))
  }

  test("a partition without duplicates has no count") {
    val kept = InternalRow(1L, null)
    assertEquals(count(kept).length, 1)
    assertEquals(count(), Nil)
  }
}
