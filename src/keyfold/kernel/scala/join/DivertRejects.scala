package org.apache.spark.sql.keyfold.join

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.keyfold.spark.memory.SparkSpillableRows
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning,
  StatefulOpClusteredDistribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.expressions.InternalColumns

/**
 * A side of a join without its side outputs. The task keeps these until the join has read all of its rows,
 * and `RestoreRejects` emits them then: a second branch around the join would read the sources twice. Both
 * sides run in the join's own task, because this operator requires the join's partitioning. `keys` and
 * `partitions` are known when the join is planned.
 */
case class DivertRejects(join: Long, keys: Seq[Expression], partitions: Int, child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == InternalColumns.SideOutput)
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(c: LogicalPlan): DivertRejects = copy(child = c)
}

case class DivertRejectsExec(join: Long, keys: Seq[Expression], partitions: Int, child: SparkPlan)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == InternalColumns.SideOutput)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (keys.isEmpty) UnspecifiedDistribution else StatefulOpClusteredDistribution(keys, partitions))

  override protected def doExecute(): RDD[InternalRow] = {
    // Locals: a closure over this operator would ship the whole plan to the tasks.
    val (input, columns, id) = (child.output, output, join)
    child.execute().mapPartitionsInternal { rows =>
      val sideOutput = input.indexWhere(_.name == InternalColumns.SideOutput)
      val diverted = DivertedRows.of(id)
      val toColumns = UnsafeProjection.create(columns, input)
      val toSideOutput = UnsafeProjection.create(Seq(input(sideOutput)), input)
      rows.filter(r => r.isNullAt(sideOutput) || { diverted.add(toSideOutput(r)); false }).map(toColumns)
    }
  }
  override protected def withNewChildInternal(c: SparkPlan): DivertRejectsExec = copy(child = c)
}

/** The side outputs that a task has diverted from the sides of a join; beyond a number they spill to disk. */
object DivertedRows {
  private val MaxRowsInMemory = 4096
  private val MaxBytesInMemory = 16L << 20
  private val byTaskAndJoin = new ConcurrentHashMap[(Long, Long), SparkSpillableRows]()

  /** Those of the current task. */
  def of(join: Long): SparkSpillableRows = {
    val task = TaskContext.get()
    val key = (task.taskAttemptId(), join)
    byTaskAndJoin.computeIfAbsent(key, _ => {
      task.addTaskCompletionListener[Unit](_ => byTaskAndJoin.remove(key))
      new SparkSpillableRows(MaxRowsInMemory, MaxBytesInMemory)
    })
  }
}
