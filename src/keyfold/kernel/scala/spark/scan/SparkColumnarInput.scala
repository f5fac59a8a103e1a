package org.apache.spark.sql.keyfold.spark.scan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.{ColumnarToRowExec, InputAdapter, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec

/** The rows of a plan that does no more than read columns, taken from the columns themselves. */
object SparkColumnarInput {
  /** None where the plan does more: its rows are then made by Spark. */
  def rows(plan: SparkPlan): Option[RDD[InternalRow]] = plan match {
    // Not the kernel's own watermark, which also records times by partition.
    case watermark: EventTimeWatermarkExec if watermark.getClass == classOf[EventTimeWatermarkExec] =>
      val stats = watermark.eventTimeStats
      for {
        input <- of(watermark.child)
        column <- Some(input.output.indexWhere(_.exprId == watermark.eventTime.exprId)).filter(_ >= 0)
      } yield input.rows(Some(TimeObserver(column, micros => stats.add(microsToMillis(micros)))))
    case other => of(other).map(_.rows(None))
  }

  /** A plan that returns columns, and an expression over them for each attribute of `output`. */
  private[spark] case class Input(plan: SparkPlan, output: Seq[Attribute], expressions: Seq[Expression]) {
    private[spark] def columns: BatchColumns = BatchColumns(expressions, plan.output)

    def projected(list: Seq[NamedExpression]): Input = {
      val known = AttributeMap(output.zip(expressions))
      val over = list.map { named =>
        val inner = named match { case alias: Alias => alias.child; case other => other }
        inner.transform { case a: Attribute => known.getOrElse(a, a) }
      }
      Input(plan, list.map(_.toAttribute), over)
    }

    def rows(observer: Option[TimeObserver]): RDD[InternalRow] = {
      // A value, so that tasks are not sent the plan.
      val read = columns
      plan.executeColumnar().mapPartitionsInternal(new SparkColumnarRows(_, read, observer))
    }
  }

  private[spark] def of(plan: SparkPlan): Option[Input] = found(plan).filter(_.columns.supported)

  private def found(plan: SparkPlan): Option[Input] = plan match {
    case WholeStageCodegenExec(child) => found(child)
    case InputAdapter(child) => found(child)
    case ProjectExec(list, child) => found(child).map(_.projected(list))
    case ColumnarToRowExec(InputAdapter(child)) => Some(Input(child, child.output, child.output))
    case ColumnarToRowExec(child) => Some(Input(child, child.output, child.output))
    case _ => None
  }
}
