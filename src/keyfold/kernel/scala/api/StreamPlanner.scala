package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.keyfold.dedup.{DedupLayout, DedupProcessor, DuplicateCounter}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.{PartitionStepNode, StatefulOperator, Unwrap}
import org.apache.spark.sql.keyfold.rows.admission.{BehindWatermark, LatenessCheck}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.rows.steps.{KeyedRows, StatelessStep}
import org.apache.spark.sql.keyfold.state.TimerBuckets
import org.apache.spark.sql.streaming.TimeMode
import org.apache.spark.sql.types.LongType

/**
 * Plans a step of a stream: the user's columns, then the event time, the weight and the row's id where it has
 * them, side outputs.
 */
class StreamPlanner(declared: Declaration) {
  import declared.{rowId, scope, source, time, weight}

  /**
   * `where` and `select` alone. With a rule, rows that the operator above can no longer use are side outputs.
   */
  def rows(from: LogicalPlan, lateness: Option[BehindWatermark]): LogicalPlan = {
    val own = (time ++ weight ++ rowId).toSeq
    val check = LatenessCheck(lateness.filter(_ => time.isDefined), source, time)
    val step = StatelessStep(declared.gate(), scope.exprs, own, check)
    val output = scope.seen.map(a => AttributeReference(a.name, a.dataType)()) ++ own.map(renewed)
    PartitionStepNode(step, output :+ SideOutput.attribute(), from)
  }

  /**
   * What the stream's own log records: the user's columns, marks of rows that only advance event time, the
   * messages that rows come from, side outputs, and the order of arrival.
   */
  def recorded(from: LogicalPlan): LogicalPlan = {
    val control = source.filter(a => a.name == InternalColumns.Control || a.name == InternalColumns.Message)
    val gate = declared.gate().copy(keepControl = true)
    val step = StatelessStep(gate, scope.exprs, control, LatenessCheck(None, source, time), stamped = true)
    val output = scope.seen.map(a => AttributeReference(a.name, a.dataType)()) ++ control.map(renewed)
    val arrival = AttributeReference(InternalColumns.Arrival, LongType, nullable = false)()
    PartitionStepNode(step, output :+ SideOutput.attribute() :+ arrival, from)
  }

  /**
   * Rows without duplicates by the declared keys. `keepDuplicates`: they are side outputs; else they are
   * counted.
   */
  def dedup(from: LogicalPlan, withinMicros: Long, keepDuplicates: Boolean, label: String): LogicalPlan = {
    val keys = declared.shuffledKeys
    val bucket = Alias(TimerBuckets.of(declared.keyExpressions.map(_.child)), InternalColumns.Pane)()
    val rule = time.map(_ => BehindWatermark(inclusive = false))
    val row = declared.streamScope
    val step = KeyedRows(declared.gate(), bucket +: declared.keyExpressions, row.exprs, time,
      Some(LatenessCheck(rule, source, time)), bare = true)
    val layout = BucketedRowLayout(bucket, keys, row.seen.map(a => a.name -> a.dataType), step.added.head)
    val dedupLayout = DedupLayout(layout.attributes, keys.length, layout.columns.length, time.isDefined)
    val processor = new DedupProcessor(
      dedupLayout, withinMicros, label, keepDuplicates, declared.input.sideOutput)
    val mode = if (time.isDefined) TimeMode.EventTime() else TimeMode.ProcessingTime()
    val sideOutput = SideOutput.attribute()
    val output = layout.columns.map(_.newInstance()) ++ time.map(renewed) :+ sideOutput
    val sent = PartitionStepNode(step, layout.attributes, from)
    val deduplicated = Unwrap(output, StatefulOperator(sent, Seq(layout.bucket), processor, mode))
    val counter = DuplicateCounter(label, output.indexOf(sideOutput))
    PartitionStepNode(counter, output.map(_.newInstance()), deduplicated)
  }

  /** The same column with an id of its own; the event time keeps its metadata, by which Spark knows it. */
  private def renewed(a: Attribute): Attribute =
    AttributeReference(a.name, a.dataType, a.nullable, a.metadata)()
}
