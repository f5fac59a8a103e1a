package org.apache.spark.sql.keyfold.spark.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch, ColumnarBatchRow}

/**
 * The columns of rows that are read by column: those of a column batch, and event times computed from them.
 * `expressions` has one for each column, over the columns `input` of the batch.
 */
case class BatchColumns(expressions: Seq[Expression], input: Seq[Attribute]) {
  /** Whether no column has to be computed but event times. */
  def supported: Boolean = expressions.forall {
    case a: Attribute => input.exists(_.exprId == a.exprId)
    // Spark runs subqueries when it executes the node that has them.
    case e => e.dataType == TimestampType && e.deterministic && !e.exists(_.isInstanceOf[PlanExpression[_]])
  }
}

/** Passes the event times of a column, in microseconds, to a function. */
case class TimeObserver(column: Int, observe: Long => Unit)

/**
 * The rows of column batches, each until the next: a row is a position in the columns, and no value is copied
 * before somebody reads it.
 */
final class SparkColumnarRows(
    batches: Iterator[ColumnarBatch], layout: BatchColumns, observer: Option[TimeObserver] = None)
    extends Iterator[InternalRow] {
  private val places = layout.expressions.map {
    case a: Attribute => layout.input.indexWhere(_.exprId == a.exprId)
    case _ => SparkColumnarRows.Computed
  }.toArray
  private val computed = places.indices.filter(places(_) == SparkColumnarRows.Computed).toArray
  private lazy val compute =
    MutableProjection.create(computed.map(layout.expressions(_)).toSeq, layout.input)
  private var times = Array.empty[OnHeapColumnVector]
  private var capacity = 0
  private var (current, row): (ColumnarBatch, ColumnarBatchRow) = (null, null)
  private var vectors = Array.empty[ColumnVector]
  private var (at, end, begun) = (0, 0, 0)

  /** How many column batches were begun: what is known of a column is of one of them. */
  def batchNumber: Int = begun
  /** Where the last row is in the columns of its batch. */
  def position: Int = row.rowId
  /** A column of the batch of the last row. */
  def column(index: Int): ColumnVector = vectors(index)
  /** All columns of the batch of the last row. */
  def batchColumns: Array[ColumnVector] = vectors

  override def hasNext: Boolean = {
    while (at == end && hasMore) begin(batches.next())
    at < end
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    row.rowId = at
    at += 1
    row
  }

  /** A batch is released before the next one is read, which may use the same memory. */
  private def hasMore: Boolean = {
    if (current != null) current.closeIfFreeable()
    current = null
    batches.hasNext
  }

  private def begin(batch: ColumnarBatch): Unit = {
    current = batch
    at = 0
    end = batch.numRows()
    begun += 1
    if (computed.nonEmpty) computeTimes(batch)
    vectors = places.map(place => if (place < 0) null else batch.column(place))
    computed.indices.foreach(i => vectors(computed(i)) = times(i))
    row = new ColumnarBatchRow(vectors)
    observer.foreach(o => observeAll(vectors(o.column), o.observe))
  }

  private def observeAll(times: ColumnVector, observe: Long => Unit): Unit = {
    var i = 0
    // Spark takes a row without a time for one at the beginning of the epoch.
    while (i < end) { observe(if (times.isNullAt(i)) 0L else times.getLong(i)); i += 1 }
  }

  private def computeTimes(batch: ColumnarBatch): Unit = {
    if (times.isEmpty || capacity < end) {
      capacity = end
      times = computed.map(_ => new OnHeapColumnVector(end, TimestampType))
    }
    times.foreach(_.reset())
    var i = 0
    while (i < end) {
      val found = compute(batch.getRow(i))
      var c = 0
      while (c < times.length) {
        if (found.isNullAt(c)) times(c).putNull(i) else times(c).putLong(i, found.getLong(c))
        c += 1
      }
      i += 1
    }
  }
}

object SparkColumnarRows {
  private val Computed = -1
}
