package org.apache.spark.sql.keyfold.physical

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows of a key next to each other, without a sort of all rows. */
class KeyGroupingSuite extends munit.FunSuite {
  private val schema = new StructType().add("k", StringType).add("n", LongType)
  private val attributes = schema.map(f => AttributeReference(f.name, f.dataType, nullable = true)())
  private val project = UnsafeProjection.create(schema)
  private def row(key: String, n: Long): UnsafeRow =
    project(new GenericInternalRow(Array[Any](UTF8String.fromString(key), n))).copy()
  private def grouping(limit: Long) = new KeyGrouping(attributes.take(1), attributes, limit)

  test("rows of a key are adjacent, in their own order, behind the rows under a null key") {
    val random = new Random(6)
    def key(n: Int) = if (n % 50 == 0) null else s"key-with-a-long-prefix-${random.nextInt(40)}"
    val rows = (0 until 2000).map(n => row(key(n), n.toLong))
    val grouped = grouping(Long.MaxValue)(rows.iterator, _ => fail("nothing should be spilled"))
    val out = grouped.map(_.copy()).toList
    assertEquals(out.length, rows.length)
    val (unkeyed, keyed) = out.span(_.isNullAt(0))
    assertEquals(unkeyed.map(_.getLong(1)), rows.filter(_.isNullAt(0)).map(_.getLong(1)).toList)
    val runs = keyed.map(_.getString(0)).foldLeft(List.empty[String]) { (seen, k) =>
      if (seen.headOption.contains(k)) seen else k :: seen
    }
    assertEquals(runs.length, runs.distinct.length)
    keyed.groupBy(_.getString(0)).values.foreach { rows =>
      assertEquals(rows.map(_.getLong(1)), rows.map(_.getLong(1)).sorted)
    }
  }

  test("keys that agree in eight bytes behind the common prefix are told apart by the rest") {
    val keys = for (a <- Seq("a", "b"); b <- 0 until 5) yield s"$a-and-a-long-middle-$b"
    val rows = (0 until 200).map(n => row(keys(n % keys.length), n.toLong))
    val out = grouping(Long.MaxValue)(rows.iterator, _ => fail("nothing should be spilled"))
    val found = out.map(_.getString(0)).toSeq
    assertEquals(found.indices.count(i => i == 0 || found(i) != found(i - 1)), keys.length)
  }

  test("more rows than memory should hold go on to the sorter, every row once") {
    val rows = (0 until 500).map(n => row(s"k${n % 7}", n.toLong))
    var spilled = Seq.empty[Long]
    def sort(all: Iterator[InternalRow]): Iterator[InternalRow] = {
      spilled = all.map(_.getLong(1)).toSeq
      Iterator.empty
    }
    grouping(2000)(rows.iterator, sort).foreach(_ => fail("all rows go to the sorter"))
    assertEquals(spilled.sorted, (0L until 500L).toSeq)
  }
}
