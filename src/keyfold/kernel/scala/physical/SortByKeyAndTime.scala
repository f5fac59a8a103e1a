package org.apache.spark.sql.keyfold.physical

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution}
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}

/** Rows of a key side by side, by event time and then arrival, for a stateful operator of Spark's own: Spark refuses to sort a stream, and gives it in any order. */
case class SortByKeyAndTime(keys: Seq[Attribute], by: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(c: LogicalPlan): SortByKeyAndTime = copy(child = c)
}

case class SortByKeyAndTimeExec(keys: Seq[Attribute], by: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  private val order = (keys ++ by).map(SortOrder(_, Ascending))
  override def outputOrdering: Seq[SortOrder] = order
  override def requiredChildDistribution: Seq[Distribution] = StatefulOpClusteredDistribution(keys, conf.numShufflePartitions) :: Nil
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = order :: Nil
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(c: SparkPlan): SortByKeyAndTimeExec = copy(child = c)
}

object SortByKeyAndTime {
  val Arrival = "_kf_arrival"

  /** The rows of a stage in order; one more column says when they arrived. */
  def rows(df: DataFrame, keys: java.util.List[String]): DataFrame = {
    val frame = df.asInstanceOf[Dataset[Row]]
    val spark = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    val input = frame.logicalPlan.output
    val out = input.map(a => AttributeReference(a.name, a.dataType, nullable = true, a.metadata)()) :+ AttributeReference(Arrival, LongType, nullable = false)()
    def named(n: String) = out.find(_.name.equalsIgnoreCase(n)).get
    val by = out.find(_.name == InternalColumns.Time).toSeq :+ named(Arrival)
    Dataset.ofRows(spark, SortByKeyAndTime(keys.asScala.toSeq.map(named), by, PartitionStepNode(ArrivalStamp(input.map(_.dataType)), out, frame.logicalPlan)))
  }
}
