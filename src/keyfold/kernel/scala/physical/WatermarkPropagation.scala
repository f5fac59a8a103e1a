package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.spark.plans.SparkStatefulOperator

/** The top of a table's plan: passes the batch's watermark to the steps that decide which rows are late. */
case class WatermarkPropagation(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(c: LogicalPlan): WatermarkPropagation = copy(child = c)
}

/**
 * Walks down the plan before its RDDs are built. The plan itself must stay as it is: Spark reads the
 * metrics of stateful operators off these very nodes, so steps and processors are told instead of replaced.
 */
case class WatermarkPropagationExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output

  override protected def doExecute(): RDD[InternalRow] = {
    propagate(child, None)
    child.execute()
  }

  private def propagate(plan: SparkPlan, watermark: Option[Long]): Unit = plan match {
    case SparkStatefulOperator(operator) =>
      operator.processor.foreach { case aware: BatchAware => aware.beginBatch(facts(operator)); case _ => }
      operator.plan.children.foreach(input => propagate(input, inputWatermark(operator, input)))
    case other =>
      other match { case step: PartitionStepExec => step.watermark.assign(watermark); case _ => }
      other.children.foreach(propagate(_, watermark))
  }

  private def facts(operator: SparkStatefulOperator): BatchFacts = {
    val derived = operator.plan.children.exists(SparkStatefulOperator.existsIn)
    BatchFacts(operator.stateVersion.getOrElse(0L), operator.lateMs.filter(_ => derived))
  }

  /** Rows that another operator has just emitted may be older than the watermark that they waited for. */
  private def inputWatermark(operator: SparkStatefulOperator, input: SparkPlan): Option[Long] =
    if (SparkStatefulOperator.existsIn(input)) operator.lateMs else operator.evictionMs

  override protected def withNewChildInternal(c: SparkPlan): WatermarkPropagationExec = copy(child = c)
}
