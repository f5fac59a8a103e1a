package org.apache.spark.sql.keyfold.join

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.{ExternalAppendOnlyUnsafeRowArray, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.rows.SideOutput
import org.apache.spark.{SparkException, TaskContext}

/** What a join gives, as the columns of the stream that it makes, if `test` holds; then the rows that its sides have set aside, with nothing but `_kf_side`. */
case class RestoreRejects(join: Long, columns: Seq[Expression], test: Option[Expression], output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(c: LogicalPlan): RestoreRejects = copy(child = c)
}

case class RestoreRejectsExec(join: Long, columns: Seq[Expression], test: Option[Expression], output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def doExecute(): RDD[InternalRow] = {
    // In another task than this one's a sieve would lose what it holds.
    if (sieves(child) != 2) throw SparkException.internalError(s"keyfold: the sides of a join are not where the join is:\n$treeString")
    val (at, from) = (join, child.output)
    val (shown, wanted) = (BindReferences.bindReferences[Expression](columns, AttributeSeq(from)), test.map(BindReferences.bindReference(_, AttributeSeq(from))))
    child.execute().mapPartitionsWithIndexInternal { (i, rows) =>
      val good = UnsafeProjection.create(shown :+ SideOutput.none)
      val bad = UnsafeProjection.create(shown.map(c => Literal(null, c.dataType)) :+ BoundReference(0, SideOutput.schema, nullable = false))
      val kept = wanted.fold(rows) { e => val p = Predicate.create(e); p.initialize(i); rows.filter(p.eval) }
      kept.map(good) ++ DivertedRows.by(at).generateIterator().map(bad)
    }
  }
  private def sieves(plan: SparkPlan): Int = plan match {
    case s: DivertRejectsExec if s.join == join => 1
    case _: Exchange => 0
    case other => other.children.map(sieves).sum
  }
  override protected def withNewChildInternal(c: SparkPlan): RestoreRejectsExec = copy(child = c)
}

/** Rows that a task has set aside at one of its joins; many of them go to disk. */
object DivertedRows {
  private val all = new ConcurrentHashMap[(Long, Long), ExternalAppendOnlyUnsafeRowArray]()
  def by(join: Long): ExternalAppendOnlyUnsafeRowArray = {
    val task = TaskContext.get()
    val key = (task.taskAttemptId(), join)
    all.computeIfAbsent(key, _ => {
      task.addTaskCompletionListener[Unit](_ => all.remove(key))
      new ExternalAppendOnlyUnsafeRowArray(4096, 16L << 20, Int.MaxValue, Long.MaxValue)
    })
  }
}
