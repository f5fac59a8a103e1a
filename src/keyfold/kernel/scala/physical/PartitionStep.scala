package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.{RDD, UnionPartition}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.rows.EventTime
import org.apache.spark.{Partition, TaskContext}

/** What a partition of rows goes through before the shuffle. */
trait PartitionStep extends Serializable {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow]
  /** The same work in a batch that runs with this watermark, in microseconds. */
  def at(watermark: Long): PartitionStep = this
  /** The same work on a partition of these files, or parts of them. */
  def reading(files: Seq[PartitionedFile]): PartitionStep = this
}

/** Rows through `work`, in Spark's internal form. Opaque on purpose: `work` finds columns by position, so no rule may move them. */
case class PartitionStepNode(work: PartitionStep, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def withNewChildInternal(c: LogicalPlan): PartitionStepNode = copy(child = c)
}

case class PartitionStepExec(work: PartitionStep, output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  /** Set on the driver, before each batch, by the node on top. */
  @transient var watermark: Long = EventTime.NoWatermark
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def doExecute(): RDD[InternalRow] = {
    new PartitionStepRDD(child.execute(), work.at(watermark))
  }
  override protected def withNewChildInternal(c: SparkPlan): PartitionStepExec = copy(child = c)
}

class PartitionStepRDD(rows: RDD[InternalRow], work: PartitionStep) extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    work.reading(PartitionStepRDD.files(split))(split.index, firstParent[InternalRow].iterator(split, context))
  }
}

object PartitionStepRDD {
  /** The files that a partition reads. Directories that fill different columns are read side by side. */
  def files(split: Partition): Seq[PartitionedFile] = split match {
    case f: FilePartition => f.files.toSeq
    case u: UnionPartition[_] => files(u.parentPartition)
    case _ => Nil
  }
}
