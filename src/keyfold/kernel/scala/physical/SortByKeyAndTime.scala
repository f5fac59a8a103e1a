package org.apache.spark.sql.keyfold.physical

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.spark.state_store.SparkStatePartitions
import org.apache.spark.sql.types._

/**
 * Rows of a key next to each other, by event time and then by arrival, for a stateful operator that is not
 * the kernel's. Spark refuses `sort` on a stream and hands rows to its operators in any order.
 */
case class SortByKeyAndTime(keys: Seq[Attribute], by: Seq[SortOrder], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(c: LogicalPlan): SortByKeyAndTime = copy(child = c)
}

case class SortByKeyAndTimeExec(keys: Seq[Attribute], by: Seq[SortOrder], child: SparkPlan)
  extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  private val order = keys.map(SortOrder(_, Ascending)) ++ by
  override def outputOrdering: Seq[SortOrder] = order
  override def requiredChildDistribution: Seq[Distribution] =
    SparkStatePartitions.by(keys, conf) :: Nil
  // Spark's planner then adds the sort itself, below this node.
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = order :: Nil
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(c: SparkPlan): SortByKeyAndTimeExec = copy(child = c)
}

object SortByKeyAndTime {
  /** The rows of a stream in order, with their order of arrival as one more column. */
  def rows(df: DataFrame, keys: java.util.List[String]): DataFrame = {
    val spark = SparkDatasets.session(df)
    KernelStrategy.install(spark)
    val plan = SparkDatasets.plan(df)
    val columns = plan.output.map(a => AttributeReference(a.name, a.dataType, nullable = true, a.metadata)())
    val arrival = AttributeReference(InternalColumns.Arrival, LongType, nullable = false)()
    val by = OrderStamp.sort(columns.find(_.name == InternalColumns.Time), arrival)
    val keyColumns = keys.asScala.toSeq.map(k => columns.find(_.name.equalsIgnoreCase(k)).get)
    val stamped = PartitionStepNode(ArrivalStamp(plan.output.map(_.dataType)), columns :+ arrival, plan)
    SparkDatasets.frame(spark, SortByKeyAndTime(keyColumns, by, stamped))
  }
}
