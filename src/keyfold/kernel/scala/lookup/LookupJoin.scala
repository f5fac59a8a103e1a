package org.apache.spark.sql.execution.keyfold.lookup

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.keyfold.spark.memory.SparkHashedRelation
import org.apache.spark.sql.keyfold.physical.PartitionStep

/**
 * Joins each row with the lookup's row of its key, as the lookup was when the batch began. `inner`: rows
 * without one are dropped. Side outputs pass through. `side` is set per batch, on the driver.
 */
case class LookupJoin(
    @transient table: LookupTable,
    layout: LookupLayout,
    inner: Boolean,
    side: Option[Broadcast[SparkHashedRelation]] = None) extends PartitionStep {
  override def at(watermarkMs: Option[Long]): PartitionStep =
    copy(table = null, side = Some(table.current(layout.on)))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val relation = side.get.value.readOnlyCopy()
    val key = UnsafeProjection.create(layout.key)
    val project = UnsafeProjection.create(layout.projection)
    val noMatch = new GenericInternalRow(layout.lookup.length)
    val sideOutput = layout.sideOutput
    val joined = new JoinedRow
    rows.flatMap { row =>
      val passes = sideOutput >= 0 && !row.isNullAt(sideOutput)
      val found = if (passes) null else relation.get(key(row))
      if (found == null && inner && !passes) None
      else Some(project(joined(row, if (found == null) noMatch else found)))
    }
  }
}
