package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/**
 * A time if it is one that can be: after the start of 1970, up to the year 9998, and no more than `ahead`
 * microseconds after the batch's clock; else null. The clock is handed to the generated code and not
 * written into it, since other code for each batch would have to be compiled and warmed up for each.
 */
case class ValidEventTime(time: Expression, clock: Expression, ahead: Option[Long]) extends BinaryExpression {
  override def left: Expression = time
  override def right: Expression = clock
  override def dataType: DataType = TimestampType
  override def nullable: Boolean = true
  private def limit: Long = ahead.fold(ValidEventTime.Newest) { a =>
    math.min(ValidEventTime.Newest, clock.eval().asInstanceOf[Long] + a)
  }
  override def eval(row: InternalRow): Any = {
    val t = time.eval(row)
    if (t == null || t.asInstanceOf[Long] < ValidEventTime.Oldest || t.asInstanceOf[Long] > limit) null else t
  }
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val t = time.genCode(ctx)
    val most = ctx.addReferenceObj("limit", new LatestTime(limit), classOf[LatestTime].getName)
    ev.copy(code = t.code + code"""
      final boolean ${ev.isNull} =
        ${t.isNull} || ${t.value} < ${ValidEventTime.Oldest}L || ${t.value} > $most.micros();
      final long ${ev.value} = ${t.value};""")
  }
  override protected def withNewChildrenInternal(t: Expression, c: Expression): Expression =
    copy(time = t, clock = c)
}

class LatestTime(val micros: Long) extends Serializable

object ValidEventTime {
  /**
   * Spark's watermark begins at 1970-01-01T00:00:00Z: what is not after it would be late, or dropped,
   * before any row was seen.
   */
  val Oldest = 1L
  /** Views know no year after 9999. */
  val Newest: Long = java.time.Instant.parse("9999-01-01T00:00:00Z").getEpochSecond * 1000000L - 1
}
