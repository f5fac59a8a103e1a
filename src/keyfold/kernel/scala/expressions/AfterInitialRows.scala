package org.apache.spark.sql.keyfold.expressions

import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._

/**
 * True if a row of a stream is not older than `until`, in microseconds, up to which the table began with
 * initial rows. Otherwise throws the reason, for which the row is rejected: it would be folded twice. A row
 * without an event time is judged by others.
 */
case class AfterInitialRows(child: Expression, until: Long) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row) match {
    case time: Long if time < until =>
      throw new IllegalArgumentException(AfterInitialRows.reason(time, until))
    case _ => true
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}

object AfterInitialRows {
  def reason(time: Long, until: Long): String =
    s"event time ${text(time)} is before ${text(until)}, where the initial rows of the table end"
  private def text(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString
}
