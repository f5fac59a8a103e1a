package org.apache.spark.sql.keyfold.spark.scan

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.apache.spark.unsafe.types.CalendarInterval

/** A source of columns. */
case class Columns(output: Seq[Attribute]) extends LeafExecNode {
  override def supportsColumnar: Boolean = true
  override protected def doExecute(): RDD[InternalRow] = throw new UnsupportedOperationException
}

/** Rows that are positions in columns, and the plans that they can be taken from. */
class SparkColumnarRowsSuite extends munit.FunSuite {
  private val at = AttributeReference("at", TimestampType)()
  private val k = AttributeReference("k", StringType)()
  private val later = TimestampAddInterval(
    at, Literal.create(new CalendarInterval(0, 0, 5L), CalendarIntervalType), Some("UTC"))

  private class Batch(vectors: ColumnVector*)(rows: Int) extends ColumnarBatch(vectors.toArray, rows) {
    var released = false
    override def closeIfFreeable(): Unit = released = true
  }

  private def times(of: Any*): Batch = {
    val vector = new OnHeapColumnVector(of.length, TimestampType)
    of.indices.foreach { i =>
      of(i) match { case micros: Long => vector.putLong(i, micros); case _ => vector.putNull(i) }
    }
    new Batch(vector)(of.length)
  }

  test("event times that are computed are columns like others, and are observed") {
    val observed = ArrayBuffer.empty[Long]
    val batches = Iterator(times(), times(1L, null), times(), times(2L, 3L, 4L))
    val rows = new SparkColumnarRows(
      batches, BatchColumns(Seq(later, at), Seq(at)), Some(TimeObserver(0, observed += _)))
    val found = rows.map(row => if (row.isNullAt(0)) None else Some((row.getLong(0), row.getLong(1)))).toList
    assertEquals(found, List(Some((6L, 1L)), None, Some((7L, 2L)), Some((8L, 3L)), Some((9L, 4L))))
    assertEquals(observed.toList, List(6L, 0L, 7L, 8L, 9L))
  }

  test("a batch is released before the next is read, the last one too") {
    val all = Seq(times(1L), times(2L, 3L))
    val releasedBefore = ArrayBuffer.empty[Boolean]
    val batches = all.iterator.map { batch =>
      releasedBefore += all.takeWhile(_ ne batch).forall(_.released)
      batch
    }
    assertEquals(new SparkColumnarRows(batches, BatchColumns(Seq(at), Seq(at))).length, 3)
    assertEquals(releasedBefore.toSeq, Seq(true, true))
    assert(all.forall(_.released))
  }

  private def read(plan: SparkPlan): Option[Seq[Expression]] =
    SparkColumnarInput.of(plan).map(_.columns.expressions)

  test("columns that are chosen, renamed and computed as event times come from the columns themselves") {
    val rows = ColumnarToRowExec(Columns(Seq(k, at)))
    assertEquals(read(rows), Some(Seq(k, at)))
    val (time, key) = (Alias(later, "time")(), Alias(k, "key")())
    val projected = ProjectExec(Seq(time, key), ProjectExec(Seq(at, k), rows))
    assertEquals(read(projected), Some(Seq(later, k)))
    assertEquals(read(WholeStageCodegenExec(projected)(1)), Some(Seq(later, k)))
    val renamed = ProjectExec(Seq(key.toAttribute), projected)
    assertEquals(read(renamed), Some(Seq(k)))
  }

  test("a plan that does more returns rows that Spark makes") {
    val rows = ColumnarToRowExec(Columns(Seq(k, at)))
    assertEquals(read(FilterExec(IsNotNull(k), rows)), None)
    assertEquals(read(ProjectExec(Seq(Alias(Upper(k), "upper")()), rows)), None)
    assertEquals(read(UnionExec(Seq(rows, rows))), None)
    assertEquals(read(LocalTableScanExec(Seq(k), Nil, None)), None)
  }
}
