package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.sql.keyfold.spark.plans.SparkPythonNodes
import org.apache.spark.sql.keyfold.spark.scan.{SparkColumnarInput, SparkInputFiles}

/** What the rows of a partition go through, one partition at a time, in Spark's internal form. */
trait PartitionStep extends Serializable {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow]

  /** Whether rows may be positions in columns: the step keeps no reference to a value of theirs. */
  def readsColumns: Boolean = false

  /** This step in a batch with this watermark of Spark's; called on the driver, once per batch. */
  def at(watermarkMs: Option[Long]): PartitionStep = this

  /** Whether the step needs the order in which rows arrive. */
  def stampsArrival: Boolean = false

  /** This step on a partition whose rows arrive in this order; called in the task, if it asks for it. */
  def arriving(order: ArrivalOrder): PartitionStep = this

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
  override protected def doExecute(): RDD[InternalRow] = {
    val columns = if (step.readsColumns) SparkColumnarInput.rows(child) else None
    new PartitionStepRDD(
      columns.getOrElse(child.execute()), step.at(watermark.ms), SparkPythonNodes.existIn(child))
  }
  override protected def withNewChildInternal(c: SparkPlan): PartitionStepExec = copy(child = c)(watermark)
}

/** `readAhead`: rows may be of another file than the one that is being read when they come. */
class PartitionStepRDD(rows: RDD[InternalRow], step: PartitionStep, readAhead: Boolean)
    extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = {
    val inputs = firstParent[InternalRow].partitions
    if (!step.stampsArrival) inputs
    else if (readAhead) inputs.map(p => OrderedPartition(p, ArrivalOrder(p.index, Map.empty)))
    else inputs.zip(ArrivalOrder.of(inputs)).map { case (p, order) => OrderedPartition(p, order) }
  }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = split match {
    case OrderedPartition(input, order) => computed(step.arriving(order), input, context)
    case input => computed(step, input, context)
  }

  private def computed(step: PartitionStep, input: Partition, context: TaskContext) =
    step.reading(SparkInputFiles.of(input))(input.index, firstParent[InternalRow].iterator(input, context))
}

/** A partition whose rows a step stamps with their order of arrival. */
case class OrderedPartition(input: Partition, order: ArrivalOrder) extends Partition {
  override def index: Int = input.index
}
