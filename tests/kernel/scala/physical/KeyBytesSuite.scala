package org.apache.spark.sql.keyfold.physical

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The order in which keys reach the state store. */
class KeyBytesSuite extends munit.FunSuite {
  private val schema = new StructType().add("k", StringType).add("n", LongType)
  private val attributes = schema.map(f => AttributeReference(f.name, f.dataType, nullable = true)())
  private def row(key: String, n: Long): UnsafeRow =
    UnsafeProjection.create(schema)(new GenericInternalRow(Array[Any](if (key == null) null else UTF8String.fromString(key), n))).copy()
  private def bytes(r: UnsafeRow): Seq[Int] = r.getBytes.toSeq.map(_ & 0xff)

  test("comparing rows is comparing their bytes without sign") {
    val chance = new Random(4)
    val rows = Seq.fill(60)(row(chance.nextString(chance.nextInt(12)), chance.nextLong()))
    for (a <- rows; b <- rows)
      assertEquals(KeyBytes.compare(a, b).sign, scala.math.Ordering.Implicits.seqOrdering[Seq, Int].compare(bytes(a), bytes(b)).sign)
  }

  test("places are sorted by their prefixes without sign, and equal ones stay as they were") {
    val chance = new Random(5)
    for (n <- Seq(0, 1, 2, 100, 5000)) {
      val prefixes = Array.fill(n)(if (chance.nextBoolean()) chance.nextLong() else chance.nextInt(3).toLong)
      val places = KeyBytes.sorted(n, prefixes(_))
      val expected = (0 until n).sortWith((a, b) => { val c = java.lang.Long.compareUnsigned(prefixes(a), prefixes(b)); if (c != 0) c < 0 else a < b })
      assertEquals((0 until n).map(places.at), expected)
    }
  }

  test("rows of a key come side by side, in their own order, with rejected rows before them") {
    val chance = new Random(6)
    val rows = (0 until 2000).map(n => row(if (n % 50 == 0) null else s"key-with-a-long-prefix-${chance.nextInt(40)}", n.toLong))
    val out = new KeyGrouping(1, attributes, Long.MaxValue)(rows.iterator, _ => fail("nothing should be spilled")).map(_.copy()).toList
    assertEquals(out.length, rows.length)
    val (aside, keyed) = out.span(_.isNullAt(0))
    assertEquals(aside.map(_.getLong(1)), rows.filter(_.isNullAt(0)).map(_.getLong(1)).toList)
    val runs = keyed.map(_.getString(0)).foldLeft(List.empty[String])((seen, k) => if (seen.headOption.contains(k)) seen else k :: seen)
    assertEquals(runs.length, runs.distinct.length)
    keyed.groupBy(_.getString(0)).values.foreach(r => assertEquals(r.map(_.getLong(1)), r.map(_.getLong(1)).sorted))
  }

  test("what is more than memory should hold goes on to the sorter, every row once") {
    val rows = (0 until 500).map(n => row(s"k${n % 7}", n.toLong))
    var spilled = Seq.empty[Long]
    def sorter(all: Iterator[InternalRow]): Iterator[InternalRow] = { spilled = all.map(_.getLong(1)).toSeq; Iterator.empty }
    new KeyGrouping(1, attributes, 2000)(rows.iterator, sorter).foreach(_ => fail("all rows go to the sorter"))
    assertEquals(spilled.sorted, (0L until 500L).toSeq)
  }
}
