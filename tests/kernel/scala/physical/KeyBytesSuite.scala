package org.apache.spark.sql.keyfold.physical

import scala.math.Ordering.Implicits.seqOrdering
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.keyfold.spark.memory.SparkRadixSort
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The order in which keys reach the state store. */
class KeyBytesSuite extends munit.FunSuite {
  private val project = UnsafeProjection.create(new StructType().add("k", StringType).add("n", LongType))
  private def key(text: String, n: Long): UnsafeRow =
    project(new GenericInternalRow(Array[Any](UTF8String.fromString(text), n))).copy()
  private def bytes(row: UnsafeRow): Seq[Int] = row.getBytes.toSeq.map(_ & 0xff)
  private def keys(seed: Int): Seq[UnsafeRow] = {
    val random = new Random(seed)
    Seq.fill(60)(key(random.nextString(random.nextInt(12)), random.nextLong()))
  }

  test("comparing keys is comparing their bytes, unsigned") {
    for (a <- keys(4); b <- keys(4)) {
      assertEquals(KeyBytes.compare(a, b).sign, seqOrdering[Seq, Int].compare(bytes(a), bytes(b)).sign)
    }
  }

  test("a common prefix ends at the first byte that differs, and at the limit") {
    for (a <- keys(7); b <- keys(7)) {
      val common = bytes(a).zip(bytes(b)).takeWhile { case (x, y) => x == y }.length
      assertEquals(KeyBytes.commonPrefix(a, b, a.getSizeInBytes), common)
      assertEquals(KeyBytes.commonPrefix(a, b, 3), common.min(3))
    }
  }

  test("eight bytes of a key order as they do one by one, with zeros behind its end") {
    for (k <- keys(8); offset <- Seq(0, 5, k.getSizeInBytes - 3, k.getSizeInBytes)) {
      val expected = bytes(k).slice(offset, offset + 8).padTo(8, 0).foldLeft(BigInt(0))(_ * 256 + _)
      assertEquals(BigInt(java.lang.Long.toUnsignedString(KeyBytes.eightBytes(k, offset))), expected)
    }
  }

  test("positions are sorted by their prefixes, unsigned, and the sort is stable") {
    val random = new Random(5)
    for (n <- Seq(0, 1, 2, 100, 5000)) {
      val prefixes = Array.fill(n)(if (random.nextBoolean()) random.nextLong() else random.nextInt(3).toLong)
      val sorted = SparkRadixSort.sort(n, prefixes(_))
      val expected = (0 until n).sortBy(i => (BigInt(java.lang.Long.toUnsignedString(prefixes(i))), i))
      assertEquals((0 until n).map(sorted.position), expected)
      assertEquals((0 until n).map(sorted.prefix), expected.map(prefixes(_)))
    }
  }
}
