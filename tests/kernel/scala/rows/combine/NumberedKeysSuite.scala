package org.apache.spark.sql.keyfold.rows.combine

import org.apache.parquet.column.{Dictionary, Encoding}
import org.apache.parquet.io.api.Binary

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.admission.RowGate
import org.apache.spark.sql.keyfold.rows.parsing.RowOrigin
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.spark.scan.{BatchColumns, SparkColumnarRows}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Partial aggregation of columns whose keys have numbers in the dictionary of a file. */
class NumberedKeysSuite extends munit.FunSuite {
  private val key = AttributeReference("k", StringType)()
  private val x = AttributeReference("x", LongType)()
  private val (n, total) = (AttributeReference("n", LongType)(), AttributeReference("total", LongType)())
  private val right = Seq(n, total).map(_.newInstance().asInstanceOf[AttributeReference])
  private val fold = AggregateFold(Seq(key, x), Seq(key), Seq(n, total), right,
    Seq(Literal(0L), Literal(0L)), Seq(Add(n, Literal(1L)), Add(total, x)),
    Some(Seq(Add(n, right.head), Add(total, right(1)))), Seq(n, total), Nil)
  private val gate = RowGate(Seq(key, x), Nil, keepRejected = true, "UTC",
    RowOrigin(Some("s"), None, Map.empty, files = false))

  private class Words(words: String*) extends Dictionary(Encoding.PLAIN) {
    var decoded = 0
    override def getMaxId: Int = words.length - 1
    override def decodeToBinary(id: Int): Binary = {
      decoded += 1
      Binary.fromString(words(id))
    }
  }

  private def values(of: Seq[Long]): ColumnVector = {
    val vector = new OnHeapColumnVector(of.length, LongType)
    of.indices.foreach(i => vector.putLong(i, of(i)))
    vector
  }

  /** A batch whose keys are numbers in a dictionary; a number below zero is null. */
  private def numbered(words: Words, numbers: Int*): ColumnarBatch = {
    val keys = new OnHeapColumnVector(numbers.length, StringType)
    val ids = keys.reserveDictionaryIds(numbers.length)
    numbers.indices.foreach(i => if (numbers(i) < 0) keys.putNull(i) else ids.putInt(i, numbers(i)))
    keys.setDictionary(new ParquetDictionary(words, false))
    new ColumnarBatch(Array(keys, values(numbers.map(_.toLong))), numbers.length)
  }

  private def plain(words: String*): ColumnarBatch = {
    val keys = new OnHeapColumnVector(words.length, StringType)
    words.indices.foreach(i => keys.putByteArray(i, words(i).getBytes))
    new ColumnarBatch(Array(keys, values(words.map(_ => 100L))), words.length)
  }

  private def sent(entries: Int, batches: ColumnarBatch*): Seq[(String, Long, Long)] = {
    val columns = BatchColumns(Seq(key, x), Seq(key, x))
    val rows = new SparkColumnarRows(batches.iterator, columns)
    PartialAggregation(gate, Seq(key), fold, entries)(0, rows).map { row =>
      if (row.isNullAt(3)) (row.getString(0), row.getLong(1), row.getLong(2))
      else (SideOutput.reason(SideOutput.of(row, 3)), -1L, -1L)
    }.toList
  }

  test("a key is read once per dictionary, and its rows are folded into one state") {
    val words = new Words("a", "b")
    val found = sent(100, numbered(words, 0, 1, 1, 0), numbered(words, 1, 1, 0))
    assertEquals(found.sorted, Seq(("a", 3L, 0L), ("b", 4L, 4L)))
    assertEquals(words.decoded, 2)
  }

  test("numbers of another dictionary are other keys") {
    val found = sent(100, numbered(new Words("a", "b"), 0, 1, 1), numbered(new Words("b", "c"), 0, 0, 1))
    assertEquals(found.sorted, Seq(("a", 1L, 0L), ("b", 4L, 2L), ("c", 1L, 1L)))
  }

  test("columns without a dictionary lie between columns with one") {
    val first = new Words("a", "b")
    val found = sent(100, numbered(first, 0, 1), plain("b", "c"), numbered(first, 1),
      plain("a"), numbered(new Words("c", "a"), 0, 1))
    assertEquals(found.sorted, Seq(("a", 3L, 101L), ("b", 3L, 102L), ("c", 2L, 100L)))
  }

  test("a row without a key is rejected") {
    val found = sent(100, numbered(new Words("a"), 0, -1, 0))
    assertEquals(found.sorted, Seq(("a", 2L, 0L), ("key k is null", -1L, -1L)))
  }

  test("states that were sent on are not found by numbers again") {
    val words = new Words("a", "b", "c")
    val found = sent(2, numbered(words, 0, 0, 0, 1, 1, 1), numbered(words, 0, 2, 2, 2, 0, 1))
    assertEquals(found.groupMapReduce(_._1)(_._2)(_ + _), Map("a" -> 5L, "b" -> 4L, "c" -> 3L))
    assertEquals(found.groupMapReduce(_._1)(_._3)(_ + _), Map("a" -> 0L, "b" -> 4L, "c" -> 6L))
  }

  test("more numbers than were foreseen") {
    val words = new Words((0 until 5000).map(i => f"k$i%05d"): _*)
    val found = sent(10000, numbered(words, (0 until 5000) ++ (0 until 5000): _*))
    assertEquals(found.length, 5000)
    assert(found.forall { case (k, count, sum) => count == 2 && sum == 2 * k.drop(1).toLong })
  }
}
