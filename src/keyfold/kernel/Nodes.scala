package org.apache.spark.sql.keyfold

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.{RDD, UnionPartition}
import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ObjectConsumer, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, WatermarkSupport}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.StatefulProcessor
import org.apache.spark.sql.types.ObjectType

/** What a partition of rows goes through before the shuffle. */
trait RowWork extends Serializable {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow]
  /** The same work in a batch that runs with this watermark, in microseconds. */
  def at(watermark: Long): RowWork = this
  /** The same work on a partition of these files, or parts of them. */
  def reading(files: Seq[PartitionedFile]): RowWork = this
}

/** Rows through `work`, in Spark's internal form. Opaque on purpose: `work` finds columns by position, so no rule may move them. */
case class Through(work: RowWork, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def withNewChildInternal(c: LogicalPlan): Through = copy(child = c)
}

case class ThroughExec(work: RowWork, output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  /** Set on the driver, before each batch, by the node on top. */
  @transient var watermark: Long = Timing.Unknown
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  override protected def doExecute(): RDD[InternalRow] = {
    new ThroughRDD(child.execute(), work.at(watermark))
  }
  override protected def withNewChildInternal(c: SparkPlan): ThroughExec = copy(child = c)
}

class ThroughRDD(rows: RDD[InternalRow], work: RowWork) extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    work.reading(ThroughRDD.files(split))(split.index, firstParent[InternalRow].iterator(split, context))
  }
}

object ThroughRDD {
  /** The files that a partition reads. Directories that fill different columns are read side by side. */
  def files(split: Partition): Seq[PartitionedFile] = split match {
    case f: FilePartition => f.files.toSeq
    case u: UnionPartition[_] => files(u.parentPartition)
    case _ => Nil
  }
}

/** The rows that the stateful operator hands out as objects, as rows again. */
case class Unwrap(output: Seq[Attribute], child: LogicalPlan) extends ObjectConsumer {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(c: LogicalPlan): Unwrap = copy(child = c)
}

case class UnwrapExec(output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def doExecute(): RDD[InternalRow] = child.execute().mapPartitionsInternal { rows =>
    val kind = ObjectType(classOf[InternalRow])
    rows.map(_.get(0, kind).asInstanceOf[InternalRow])
  }
  override protected def withNewChildInternal(c: SparkPlan): UnwrapExec = copy(child = c)
}

/** The top of a table's plan. Spark tells the batch's watermark to stateful operators alone; what is late must be known before rows reach them. */
case class Informed(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(c: LogicalPlan): Informed = copy(child = c)
}

case class InformedExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override protected def doExecute(): RDD[InternalRow] = { tell(child, Timing.Unknown); child.execute() }

  private def tell(plan: SparkPlan, watermark: Long): Unit = plan match {
    case through: ThroughExec => through.watermark = watermark; tell(through.child, watermark)
    case state: WatermarkSupport => below(state, state.eventTimeWatermarkForLateEvents, state.eventTimeWatermarkForEviction)
    case join: StreamingSymmetricHashJoinExec => below(join, join.eventTimeWatermarkForLateEvents, join.eventTimeWatermarkForEviction)
    case other => other.children.foreach(tell(_, watermark))
  }
  private def below(state: SparkPlan, forLate: Option[Long], forEviction: Option[Long]): Unit = {
    // What comes out of a stateful operator may be older than the watermark that it has just waited for.
    def derived(from: SparkPlan) = from.exists { case _: StatefulOperator => true; case _ => false }
    state match {
      case t: TransformWithStateExec => t.statefulProcessor.asInstanceOf[StatefulProcessor[_, _, _]] match {
        case p: Patterned => p.version = t.stateInfo.fold(0L)(_.storeVersion)
        case f: Folding => f.lagging = forLate.filter(_ => t.children.exists(derived))
        case _ =>
      }
      case _ =>
    }
    state.children.foreach(from => tell(from, (if (derived(from)) forLate else forEviction).fold(Timing.Unknown)(Timing.micros)))
  }
  override protected def withNewChildInternal(c: SparkPlan): InformedExec = copy(child = c)
}

object KernelStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Through(work, output, child) => ThroughExec(work, output, planLater(child)) :: Nil
    case Gather(fold, keys, group, child) => GatherExec(fold, keys, group, planLater(child)) :: Nil
    case Unwrap(output, child) => UnwrapExec(output, planLater(child)) :: Nil
    case Ordered(keys, by, child) => OrderedExec(keys, by, planLater(child)) :: Nil
    case Informed(child) => InformedExec(planLater(child)) :: Nil
    case _ => Nil
  }

  /** Once per session; queries copy the session and keep it. */
  def install(spark: AnySession): Unit = synchronized {
    val methods = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].experimental
    if (!methods.extraStrategies.contains(KernelStrategy)) methods.extraStrategies = methods.extraStrategies :+ KernelStrategy
  }
}
