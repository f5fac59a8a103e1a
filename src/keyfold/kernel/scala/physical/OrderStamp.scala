package org.apache.spark.sql.keyfold.physical

import java.util.Comparator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * The order in which a key's rows are processed: by event time, rows without one first, then by arrival. A
 * row has its stamp as one column, a struct of both.
 */
object OrderStamp {
  val schema: StructType = new StructType().add("time", TimestampType).add("arrival", LongType)

  /** The stamp of a row. */
  def apply(time: Option[Expression], arrival: Expression): Expression = CreateNamedStruct(Seq(
    Literal("time"), time.getOrElse(Literal(null, TimestampType)), Literal("arrival"), arrival))

  def time(stamp: Expression): Expression = GetStructField(stamp, 0)
  def arrival(stamp: Expression): Expression = GetStructField(stamp, 1)
  /** The event time in microseconds; zero for a row without one. */
  def micros(stamp: Expression): Expression = Coalesce(Seq(UnixMicros(time(stamp)), Literal(0L)))
  /** The same, of a row whose column `at` is the stamp. */
  def micros(row: InternalRow, at: Int): Long = {
    val stamp = row.getStruct(at, schema.length)
    if (stamp.isNullAt(0)) 0L else stamp.getLong(0)
  }

  /** Rows whose column `at` is the stamp. */
  def order(at: Int): Comparator[InternalRow] = (x, y) => {
    val (a, b) = (x.getStruct(at, schema.length), y.getStruct(at, schema.length))
    val byPresence = java.lang.Boolean.compare(!a.isNullAt(0), !b.isNullAt(0))
    if (byPresence != 0) byPresence
    else if (a.isNullAt(0)) java.lang.Long.compare(a.getLong(1), b.getLong(1))
    else compare(a.getLong(0), a.getLong(1), b.getLong(0), b.getLong(1))
  }

  /** Rows that have event time and arrival as two columns of longs. */
  def order(time: Int, arrival: Int): Comparator[InternalRow] =
    (x, y) => compare(x.getLong(time), x.getLong(arrival), y.getLong(time), y.getLong(arrival))

  private def compare(time: Long, arrival: Long, otherTime: Long, otherArrival: Long): Int = {
    val byTime = java.lang.Long.compare(time, otherTime)
    if (byTime != 0) byTime else java.lang.Long.compare(arrival, otherArrival)
  }

  /** For Spark's sort, of rows that have them as two columns; nulls come first. */
  def sort(time: Option[Attribute], arrival: Attribute): Seq[SortOrder] =
    (time.toSeq :+ arrival).map(SortOrder(_, Ascending))
}
