package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.spark.SparkInputFiles
import org.apache.spark.{Partition, TaskContext}

/** What the rows of a partition go through, one partition at a time, in Spark's internal form. */
trait PartitionStep extends Serializable {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow]

  /** This step in a batch with this watermark of Spark's; called on the driver, once per batch. */
  def at(watermarkMs: Option[Long]): PartitionStep = this

  /** This step on a partition that reads these files, or parts of them; called in the task. */
  def reading(files: Seq[PartitionedFile]): PartitionStep = this
}

/** A step in a logical plan. It finds columns by position and so references all: no rule may prune one. */
case class PartitionStepNode(step: PartitionStep, output: Seq[Attribute], child: LogicalPlan)
  extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def withNewChildInternal(c: LogicalPlan): PartitionStepNode = copy(child = c)
}

case class PartitionStepExec(step: PartitionStep, output: Seq[Attribute], child: SparkPlan)(
    @transient val watermark: BatchWatermark) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def otherCopyArgs: Seq[AnyRef] = watermark :: Nil
  override protected def doExecute(): RDD[InternalRow] =
    new PartitionStepRDD(child.execute(), step.at(watermark.ms))
  override protected def withNewChildInternal(c: SparkPlan): PartitionStepExec = copy(child = c)(watermark)
}

class PartitionStepRDD(rows: RDD[InternalRow], step: PartitionStep) extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    step.reading(SparkInputFiles.of(split))(split.index, firstParent[InternalRow].iterator(split, context))
}
