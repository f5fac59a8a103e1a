package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows as they are shuffled, buffered and stored for an enrichment. */
class EnrichLayoutSuite extends munit.FunSuite {
  private val row = new StructType().add("order", LongType).add("note", StringType)
  private val value = new StructType().add("total", LongType)
  private val layout = EnrichLayout(2, row, value)
  private val types = Seq(row, value, IntegerType, LongType, LongType, IntegerType, SideOutput.schema)
  private val input = Seq("k0", "k1").map(AttributeReference(_, StringType)()) ++
    EnrichLayout.Columns.zip(types).map { case (name, t) => AttributeReference(name, t)() }
  private def text(s: String): UTF8String = UTF8String.fromString(s)
  private def stored(schema: StructType, r: InternalRow): InternalRow =
    UnsafeProjection.create(schema)(r).copy()
  private def shuffled(columns: Any*): InternalRow =
    stored(StructType(input.map(a => StructField(a.name, a.dataType))),
      InternalRow.fromSeq(Seq(text("a"), text("b")) ++ columns))

  test("a stream row has its columns behind the key") {
    val r = shuffled(InternalRow(7L, text("x")), null, EnrichLayout.StreamRow, 50L, 0L, -1, null)
    assert(layout.isStreamRow(r) && !layout.isValue(r))
    assertEquals((layout.row(r).getLong(0), layout.row(r).getString(1)), (7L, "x"))
    assertEquals((layout.time(r), layout.timeOrNull(r), layout.weight(r)), (50L, 50L: Any, -1))
    assertEquals(layout.sideOutput(r), null)
  }

  test("a table value has an order, and a deleted one is neither a row nor a value") {
    val r = shuffled(null, InternalRow(9L), EnrichLayout.TableValue, null, 12L, 1, null)
    assert(layout.isValue(r) && !layout.isStreamRow(r) && !layout.hasTime(r))
    assertEquals((layout.value(r).getLong(0), layout.order(r), layout.timeOrNull(r)), (9L, 12L, null: Any))
    val deleted = shuffled(null, null, EnrichLayout.DeletedValue, null, 13L, 1, null)
    assert(!layout.isValue(deleted) && !layout.isStreamRow(deleted))
  }

  test("a side output comes through as it is") {
    val side = SideOutput.rejected("why", "raw", None)
    val r = shuffled(null, null, EnrichLayout.StreamRow, null, 0L, 1, side)
    assertEquals(SideOutput.raw(layout.sideOutput(r)), "raw")
  }

  test("the columns of the joined row are in the order in which its buffer sets them") {
    val resultValue = AttributeReference("value", new StructType().add("op", StringType))()
    val attributes = layout.joinedRow(input, resultValue)
    assertEquals(attributes.map(_.name), Seq("k0", "k1", "row", "value", "time", "weight", "side_output"))
    assertEquals(attributes(layout.valueIndex), resultValue: Any)
    val buffer = new JoinedRowBuffer
    val joined = buffer(InternalRow(1L, null), InternalRow(2L), 3L, -1, null)
    assertEquals(joined.getStruct(0, 2).getLong(0), 1L)
    assertEquals(joined.getStruct(1, 1).getLong(0), 2L)
    assertEquals((joined.getLong(2), joined.getInt(3), joined.isNullAt(4)), (3L, -1, true))
    assert(buffer(null, null, null, 1, null).isNullAt(0))
  }

  test("a buffered row comes back with its time and its deadline") {
    val timed = BufferedRowLayout(row, hasDeadline = true)
    val r = stored(timed.schema, timed(InternalRow(7L, text("x")), 50L, 60L))
    assertEquals((timed.row(r).getLong(0), timed.time(r), timed.due(r)), (7L, 50L, 60L))
    assertEquals(timed.timeOrNull(stored(timed.schema, timed(InternalRow(7L, null), null, 60L))), null)
    val plain = BufferedRowLayout(row, hasDeadline = false)
    assertEquals(plain.schema.fieldNames.toSeq, Seq("row", "time"))
    assertEquals(plain.time(stored(plain.schema, plain(InternalRow(7L, null), 50L))), 50L)
  }

  private val versions = VersionsLayout(new StructType().add("n", LongType).add("name", StringType))
  private def version(from: Long, name: String): Version = Version(from, InternalRow(from * 2, text(name)))

  test("versions come back in their order, with their states") {
    for (pruned <- Seq(true, false)) {
      val all = ArrayBuffer(version(-5, "x"), version(10, "yy"), version(20, null))
      val back = versions.decode(stored(versions.schema, versions.encode(Versions(pruned, all))))
      assertEquals(back.pruned, pruned)
      assertEquals(back.all.map(_.from).toSeq, Seq(-5L, 10L, 20L))
      assertEquals(back.all.map(_.state.getLong(0)).toSeq, Seq(-10L, 20L, 40L))
      assertEquals(back.all.map(_.state.getUTF8String(1)).toSeq, Seq(text("x"), text("yy"), null))
    }
  }

  test("the version as of a time is the newest that is not after it") {
    val all = Versions(pruned = false, ArrayBuffer(version(10, "x"), version(20, "y")))
    assertEquals(Seq(9L, 10L, 19L, 20L, 1000L).map(all.asOf(_).map(_.from)),
      Seq(None, Some(10L), Some(10L), Some(20L), Some(20L)))
    assertEquals(all.newest.from, 20L)
    assertEquals(Versions.empty.asOf(5), None)
  }
}
