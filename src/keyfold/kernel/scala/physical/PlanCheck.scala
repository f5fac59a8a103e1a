package org.apache.spark.sql.keyfold.physical

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.keyfold.spark.plans.{SparkStatefulOperator, SparkStreamingJoin}
import org.apache.spark.sql.keyfold.spark.plans.SparkStreamingPlan
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types.LongType

/**
 * Whether this Spark plans the kernel's operators in the way that keyfold relies on. The kernel is compiled
 * against Spark's internals, but a compiler cannot see a planner that puts a sort, or nothing, where the
 * kernel expects a node of its own: results would be wrong or slow without an error. So a tiny plan is
 * checked when a session is prepared.
 */
object PlanCheck {
  /** What is different in this Spark, in words for the user; None if nothing is. */
  def problem(session: SparkSession): Option[String] = {
    KernelStrategy.install(session)
    val found =
      try shape(SparkStreamingPlan(session, samplePlan)).orElse(joinShape)
      catch {
        // A missing method or class, or a node that no strategy plans.
        case e @ (_: LinkageError | _: AssertionError) => Some(s"cannot plan keyfold's operators ($e)")
        case NonFatal(e) => Some(s"cannot plan keyfold's operators ($e)")
      }
    found.map(difference => s"Spark ${session.version} $difference")
  }

  /** A node that the plan must have at a place, and why. */
  private case class Expected(name: String, why: String)(val is: SparkPlan => Boolean)

  /** From the top of the plan down. */
  private val Nodes = Seq(
    Expected("WatermarkPropagationExec", "it passes the watermark on") {
      _.isInstanceOf[WatermarkPropagationExec]
    },
    Expected("UnwrapExec", "it turns emitted objects into rows")(_.isInstanceOf[UnwrapExec]),
    Expected("TransformWithStateExec with the kernel's processor", "it holds the state") {
      case SparkStatefulOperator(operator) => operator.processor.exists(_.isInstanceOf[BatchAware])
      case _ => false
    },
    Expected("MergePartialsExec", "it merges partial aggregates and stands in for a sort") {
      _.isInstanceOf[MergePartialsExec]
    },
    Expected("a shuffle by key", "a key's rows must be in one partition")(_.isInstanceOf[Exchange]),
    Expected("PartitionStepExec", "it prepares rows before the shuffle")(_.isInstanceOf[PartitionStepExec]))

  /** The first node of a plan that is not where it should be. */
  private[physical] def shape(plan: SparkPlan): Option[String] = {
    // The first child: that of the stateful operator which is not its initial state.
    val chain = Iterator.iterate(Option(plan))(_.flatMap(_.children.headOption)).take(Nodes.length).toSeq
    Nodes.indices.find(i => !chain(i).exists(Nodes(i).is)).map { i =>
      val found = chain(i).fold("nothing")(_.nodeName)
      val place = if (i == 0) "at the top" else s"below ${Nodes(i - 1).name}"
      s"plans $found $place, where keyfold needs ${Nodes(i).name}: ${Nodes(i).why}"
    }
  }

  private def joinShape: Option[String] = {
    val sides = Seq.fill(2)(LocalRelation(AttributeReference("key", LongType)()))
    val join = SparkStreamingJoin(Inner, sides.head.output, sides(1).output, None, sides.head, sides(1))
    val Seq(left, right) = sides.map(side => LocalTableScanExec(side.output, Nil, None))
    SparkStatefulOperator.unapply(join.operator(left, right)) match {
      case Some(_) => None
      case None => Some("joins streams by an operator that does not tell keyfold its watermark")
    }
  }

  private def samplePlan: LogicalPlan = {
    val rows = LocalRelation(Seq(AttributeReference("key", LongType)()), isStreaming = true)
    val (key, arrival) = (AttributeReference("key", LongType)(), AttributeReference("arrival", LongType)())
    val step = PartitionStepNode(ArrivalStamp(Seq(LongType)), Seq(key, arrival), rows)
    val merged = MergePartials(None, Seq(key), Seq(key), step)
    val operator = StatefulOperator(merged, Seq(key), new SampleProcessor, TimeMode.None())
    WatermarkPropagation(Unwrap(merged.output.map(_.newInstance()), operator))
  }

  private class SampleProcessor
    extends StatefulProcessor[InternalRow, InternalRow, InternalRow] with BatchAware {
    override def init(mode: OutputMode, time: TimeMode): Unit = ()
    override def handleInputRows(
        key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = rows
  }
}
