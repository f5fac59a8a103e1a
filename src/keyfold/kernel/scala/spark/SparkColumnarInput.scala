package org.apache.spark.sql.keyfold.spark

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
    // Not the kernel's own, which are told of partitions too.
    case watermark: EventTimeWatermarkExec if watermark.getClass == classOf[EventTimeWatermarkExec] =>
      val stats = watermark.eventTimeStats
      rows(watermark.child, Some(watermark.eventTime), micros => stats.add(microsToMillis(micros)))
    case other => rows(other, None, _ => ())
  }

  private def rows(
      plan: SparkPlan, time: Option[Attribute], observe: Long => Unit): Option[RDD[InternalRow]] =
    read(plan).filter(_.columns.supported).map { input =>
      // Values, so that tasks are not sent the plan.
      val (columns, at) = (input.columns, time.map(t => input.output.indexWhere(_.exprId == t.exprId)))
      input.plan.executeColumnar().mapPartitionsInternal { batches =>
        val rows = new SparkColumnarRows(batches, columns)
        at.fold[Iterator[InternalRow]](rows)(rows.observing(_, observe))
      }
    }

  /** A plan that returns columns, and what is made of them: an expression for each attribute of `output`. */
  private case class Input(plan: SparkPlan, output: Seq[Attribute], made: Seq[Expression]) {
    def columns: BatchColumns = BatchColumns(made, plan.output)

    def projected(list: Seq[NamedExpression]): Input = {
      val known = AttributeMap(output.zip(made))
      val expressions = list.map { named =>
        val inner = named match { case alias: Alias => alias.child; case other => other }
        inner.transform { case a: Attribute => known.getOrElse(a, a) }
      }
      Input(plan, list.map(_.toAttribute), expressions)
    }
  }

  private def read(plan: SparkPlan): Option[Input] = plan match {
    case WholeStageCodegenExec(child) => read(child)
    case InputAdapter(child) => read(child)
    case ProjectExec(list, child) => read(child).map(_.projected(list))
    case ColumnarToRowExec(InputAdapter(child)) => Some(Input(child, child.output, child.output))
    case ColumnarToRowExec(child) => Some(Input(child, child.output, child.output))
    case _ => None
  }
}
