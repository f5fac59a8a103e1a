package org.apache.spark.sql.keyfold

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{SparkException, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{ExternalAppendOnlyUnsafeRowArray, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * A side of a join without the rows that were set aside. Those are held by the task until the join has read all of its rows, and `Beside` hands them out then: a
 * second branch around the join would read the sources twice. The join and both sides of it are one task, since a sieve asks for the join's own partitioning.
 */
case class Sieve(join: Long, keys: Seq[Expression], partitions: Int, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == Names.Bad)
  override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(c: LogicalPlan): Sieve = copy(child = c)
}

case class SieveExec(join: Long, keys: Seq[Expression], partitions: Int, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.filterNot(_.name == Names.Bad)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(if (keys.isEmpty) UnspecifiedDistribution else StatefulOpClusteredDistribution(keys, partitions))
  override protected def doExecute(): RDD[InternalRow] = {
    val (from, to, at) = (child.output, output, join)
    child.execute().mapPartitionsInternal { rows =>
      val bad = from.indexWhere(_.name == Names.Bad)
      val held = Withheld.by(at)
      val (good, text) = (UnsafeProjection.create(to, from), UnsafeProjection.create(Seq(from(bad)), from))
      rows.filter(r => r.isNullAt(bad) || { held.add(text(r)); false }).map(good)
    }
  }
  override protected def withNewChildInternal(c: SparkPlan): SieveExec = copy(child = c)
}

/** What a join gives, as the columns of the stream that it makes, if `test` holds; then the rows that its sides have set aside, with nothing but `_kf_bad`. */
case class Beside(join: Long, columns: Seq[Expression], test: Option[Expression], output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(c: LogicalPlan): Beside = copy(child = c)
}

case class BesideExec(join: Long, columns: Seq[Expression], test: Option[Expression], output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def doExecute(): RDD[InternalRow] = {
    // In another task than this one's a sieve would lose what it holds.
    if (sieves(child) != 2) throw SparkException.internalError(s"keyfold: the sides of a join are not where the join is:\n$treeString")
    val (at, from) = (join, child.output)
    val (shown, wanted) = (BindReferences.bindReferences[Expression](columns, AttributeSeq(from)), test.map(BindReferences.bindReference(_, AttributeSeq(from))))
    child.execute().mapPartitionsWithIndexInternal { (i, rows) =>
      val good = UnsafeProjection.create(shown :+ Literal(null, StringType))
      val bad = UnsafeProjection.create(shown.map(c => Literal(null, c.dataType)) :+ BoundReference(0, StringType, nullable = false))
      val kept = wanted.fold(rows) { e => val p = Predicate.create(e); p.initialize(i); rows.filter(p.eval) }
      kept.map(good) ++ Withheld.by(at).generateIterator().map(bad)
    }
  }
  private def sieves(plan: SparkPlan): Int = plan match {
    case s: SieveExec if s.join == join => 1
    case _: Exchange => 0
    case other => other.children.map(sieves).sum
  }
  override protected def withNewChildInternal(c: SparkPlan): BesideExec = copy(child = c)
}

/** Rows that a task has set aside at one of its joins; many of them go to disk. */
object Withheld {
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

object JoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Beside(join, columns, test, output, child) => BesideExec(join, columns, test, output, meeting(join, child)) :: Nil
    case Sieve(join, keys, partitions, child) => SieveExec(join, keys, partitions, planLater(child)) :: Nil
    case _ => Nil
  }

  /** As Spark's own strategy; what it does not do is to tell the sides by which keys they will be joined, which the optimizer may have rewritten. */
  private def meeting(join: Long, plan: LogicalPlan): SparkPlan = plan match {
    case ExtractEquiJoinKeys(how, leftKeys, rightKeys, other, _, left, right, _) =>
      val conf = plan.conf
      val partitions = conf.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).getOrElse(conf.numShufflePartitions)
      def by(side: LogicalPlan, keys: Seq[Expression]): SparkPlan = planLater(side.transform { case s: Sieve if s.join == join => s.copy(keys = keys, partitions = partitions) })
      new StreamingSymmetricHashJoinExec(leftKeys, rightKeys, how, other, 4, by(left, leftKeys), by(right, rightKeys))
    case other => planLater(other)
  }

  def install(spark: AnySession): Unit = synchronized {
    val methods = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].experimental
    if (!methods.extraStrategies.contains(JoinStrategy)) methods.extraStrategies = methods.extraStrategies :+ JoinStrategy
  }
}
