package org.apache.spark.sql.keyfold.physical

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, MessageOrigin}
import org.apache.spark.sql.keyfold.spark.plans.SparkWatermarkExec
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}
import org.apache.spark.util.AccumulatorV2

/** Spark's watermark of a stream of Kafka messages, by the partition that is behind the others. */
class PartitionedWatermark(
    nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: LogicalPlan,
    @transient val clock: PartitionClock)
    extends EventTimeWatermark(nodeId, eventTime, delay, child) {
  /** Spark does not replace a node by one that is equal to it. */
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PartitionedWatermark]
  override protected def otherCopyArgs: Seq[AnyRef] = clock :: Nil
  override protected def withNewChildInternal(c: LogicalPlan): PartitionedWatermark =
    new PartitionedWatermark(nodeId, eventTime, delay, c, clock)
}

class PartitionedWatermarkExec(
    nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: SparkPlan,
    @transient private val clock: PartitionClock)
    extends SparkWatermarkExec(nodeId, eventTime, delay, child) {
  override protected def otherCopyArgs: Seq[AnyRef] = clock :: Nil
  override protected def withNewChildInternal(c: SparkPlan): PartitionedWatermarkExec =
    new PartitionedWatermarkExec(nodeId, eventTime, delay, c, clock)

  override protected def doExecute(): RDD[InternalRow] = {
    val columns = child.output
    val time = columns.indexWhere(_.exprId == eventTime.exprId)
    val message = columns.indexWhere(_.name == InternalColumns.Message)
    val times = new PartitionTimes
    sparkContext.register(times)
    clock.observe(nodeId, () => clock.advance(times.newest, times.control).foreach(reach))
    child.execute().mapPartitions { rows =>
      val observed = new ObservedTimes(times, time, message)
      rows.map { row => observed.add(row); row }
    }
  }
}

/** Adds the event times of one task's rows. */
private class ObservedTimes(times: PartitionTimes, time: Int, message: Int) {
  private var topic: UTF8String = _
  private var partition = -1
  private var newest: NewestTime = _

  def add(row: InternalRow): Unit = if (!row.isNullAt(time)) {
    val ms = microsToMillis(row.getLong(time))
    val origin = MessageOrigin.of(row, message)
    if (origin == null) times.add(ms)
    else {
      val of = MessageOrigin.topic(origin)
      if (newest == null || MessageOrigin.partition(origin) != partition || of != topic) {
        topic = of.copy()
        partition = MessageOrigin.partition(origin)
        newest = times.of(s"$topic-$partition")
      }
      if (ms > newest.ms) newest.ms = ms
    }
  }
}

/** The newest event time of a partition of a topic, in one task or batch. */
final class NewestTime(var ms: Long = Long.MinValue) extends Serializable

/** The newest event times of a batch by partition. */
class PartitionTimes extends AccumulatorV2[Long, Unit] {
  private val byPartition = mutable.HashMap.empty[String, NewestTime]
  /** The newest time of rows that are of no message, and only advance time. */
  var control = Option.empty[Long]

  def of(partition: String): NewestTime = byPartition.getOrElseUpdate(partition, new NewestTime)
  def newest: Map[String, Long] = byPartition.map { case (p, n) => p -> n.ms }.toMap

  override def add(ms: Long): Unit = control = (control ++ Some(ms)).maxOption
  override def value: Unit = ()
  override def isZero: Boolean = byPartition.isEmpty && control.isEmpty
  override def reset(): Unit = { byPartition.clear(); control = None }

  override def copy(): PartitionTimes = {
    val same = new PartitionTimes
    same.merge(this)
    same
  }

  override def merge(other: AccumulatorV2[Long, Unit]): Unit = {
    val more = other.asInstanceOf[PartitionTimes]
    more.byPartition.foreach { case (p, n) => of(p).ms = math.max(of(p).ms, n.ms) }
    control = (control ++ more.control).maxOption
  }
}
