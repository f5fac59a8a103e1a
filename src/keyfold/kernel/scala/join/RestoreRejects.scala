package org.apache.spark.sql.keyfold.join

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput

/**
 * The joined rows that satisfy `test`, as the columns of the joined stream; then the side outputs that
 * `DivertRejects` has kept on both sides.
 */
case class RestoreRejects(
    join: Long,
    columns: Seq[Expression],
    test: Option[Expression],
    output: Seq[Attribute],
    child: LogicalPlan) extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(c: LogicalPlan): RestoreRejects = copy(child = c)
}

case class RestoreRejectsExec(
    join: Long,
    columns: Seq[Expression],
    test: Option[Expression],
    output: Seq[Attribute],
    child: SparkPlan) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def doExecute(): RDD[InternalRow] = {
    if (diversionsInTask(child) != 2) throw SparkException.internalError(
      s"keyfold: the sides of a join do not run in its task, which would lose side outputs:\n$treeString")
    // Locals: a closure over this operator would ship the whole plan to the tasks.
    val (id, input) = (join, AttributeSeq(child.output))
    val bound = BindReferences.bindReferences[Expression](columns, input)
    val boundTest = test.map(BindReferences.bindReference(_, input))
    child.execute().mapPartitionsWithIndexInternal { (partition, rows) =>
      val toJoined = UnsafeProjection.create(bound :+ SideOutput.none)
      val sideOutput = BoundReference(0, SideOutput.schema, nullable = false)
      val toSideOutput = UnsafeProjection.create(bound.map(c => Literal(null, c.dataType)) :+ sideOutput)
      val joined = boundTest.fold(rows) { e =>
        val predicate = Predicate.create(e)
        predicate.initialize(partition)
        rows.filter(predicate.eval)
      }
      // The second part is evaluated after the first, when both sides have been read.
      joined.map(toJoined) ++ DivertedRows.of(id).iterator.map(toSideOutput)
    }
  }

  private def diversionsInTask(plan: SparkPlan): Int = plan match {
    case d: DivertRejectsExec if d.join == join => 1
    case _: Exchange => 0
    case other => other.children.map(diversionsInTask).sum
  }
  override protected def withNewChildInternal(c: SparkPlan): RestoreRejectsExec = copy(child = c)
}
