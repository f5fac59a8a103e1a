package org.apache.spark.sql.keyfold.join

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._

/**
 * A side of a join without the rows that were set aside. Those are held by the task until the join has read all of its rows, and `RestoreRejects` hands them out then: a
 * second branch around the join would read the sources twice. The join and both sides of it are one task, since a sieve asks for the join's own partitioning.
 */
case class DivertRejects(join: Long, keys: Seq[Expression], partitions: Int, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == InternalColumns.SideOutput)
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(c: LogicalPlan): DivertRejects = copy(child = c)
}

case class DivertRejectsExec(join: Long, keys: Seq[Expression], partitions: Int, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == InternalColumns.SideOutput)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (keys.isEmpty) UnspecifiedDistribution else StatefulOpClusteredDistribution(keys, partitions))
  override protected def doExecute(): RDD[InternalRow] = {
    val (from, to, at) = (child.output, output, join)
    child.execute().mapPartitionsInternal { rows =>
      val sideOutput = from.indexWhere(_.name == InternalColumns.SideOutput)
      val held = DivertedRows.by(at)
      val (good, diverted) = (UnsafeProjection.create(to, from), UnsafeProjection.create(Seq(from(sideOutput)), from))
      rows.filter(r => r.isNullAt(sideOutput) || { held.add(diverted(r)); false }).map(good)
    }
  }
  override protected def withNewChildInternal(c: SparkPlan): DivertRejectsExec = copy(child = c)
}
