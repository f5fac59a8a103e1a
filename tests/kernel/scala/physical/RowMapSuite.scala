package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The hash map of rows, beside a map of Scala's. */
class RowMapSuite extends munit.FunSuite {
  private val keyOf = UnsafeProjection.create(Array[DataType](StringType))
  private val valueOf = UnsafeProjection.create(Array[DataType](LongType, StringType))

  private def key(text: String): UnsafeRow =
    keyOf(new GenericInternalRow(Array[Any](UTF8String.fromString(text)))).copy()
  private def value(n: Long, text: String): UnsafeRow =
    valueOf(new GenericInternalRow(Array[Any](n, UTF8String.fromString(text)))).copy()

  private def count(map: RowMap, text: String): Unit = {
    val known = map.get(key(text))
    if (known == null) map.add(key(text), value(1, text)) else known.setLong(0, known.getLong(0) + 1)
    assertEquals(map.key(map.last, new UnsafeRow(1)), key(text))
  }

  private def content(map: RowMap): Seq[(String, (Long, String))] = {
    val (key, value) = (new UnsafeRow(1), new UnsafeRow(2))
    map.records.toSeq.map { record =>
      val found = map.value(record, value)
      (map.key(record, key).getString(0), (found.getLong(0), found.getString(1)))
    }
  }

  test("keys of any length are counted as by another map, and come in the order they were added in") {
    val random = new Random(21)
    val (map, expected) = (new RowMap(2), mutable.LinkedHashMap.empty[String, Long])
    (1 to 60000).foreach { _ =>
      val text = "x" * random.nextInt(40) + random.nextInt(3000)
      count(map, text)
      expected(text) = expected.getOrElse(text, 0L) + 1
    }
    assert(expected.size > 10000, "the map has grown several times")
    assertEquals(map.size, expected.size)
    assertEquals(content(map), expected.toSeq.map { case (text, n) => (text, (n, text)) })
  }

  test("keys of one hash are told apart") {
    // Found by search: their rows have equal hashes.
    val byHash = (0 until 200000).map(i => s"k$i").groupBy(text => key(text).hashCode)
    val alike = byHash.values.filter(_.length > 1).take(5).flatten.toSeq
    assert(alike.length >= 4)
    val map = new RowMap(2)
    alike.foreach(count(map, _))
    alike.tail.foreach(count(map, _))
    assertEquals(content(map).map(_._2._1), 1L +: alike.tail.map(_ => 2L))
  }

  test("a cleared map is empty, and takes the same keys again") {
    val map = new RowMap(2)
    (1 to 5000).foreach(i => count(map, s"k$i"))
    map.clear()
    assertEquals(map.size, 0)
    assertEquals(map.bytes, 0L)
    assert(map.get(key("k1")) == null)
    (1 to 10).foreach(i => count(map, s"k$i"))
    assertEquals(content(map).map(_._1), (1 to 10).map(i => s"k$i"))
  }
}
