package org.apache.spark.sql.execution.keyfold.lookup

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.joins.HashedRelation
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.types._

/** Each row with what the lookup has for its key: the version that was newest when the batch began. */
case class LookupJoin(@transient reference: LookupTable, on: Seq[String], input: Seq[Attribute], keys: Seq[Int], theirs: StructType, taken: Seq[Int], inner: Boolean, side: Broadcast[HashedRelation] = null) extends PartitionStep {
  override def at(watermark: Long): PartitionStep = copy(reference = null, side = reference.version(on))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val relation = side.value.asReadOnlyCopy()
    val key = UnsafeProjection.create(LookupSide.key(keys, keys.map(input(_).dataType)))
    val sideOutput = input.indexWhere(_.name == InternalColumns.SideOutput)
    val mine = input.zipWithIndex.map { case (a, i) => a -> BoundReference(i, a.dataType, nullable = true) }
    val (own, hidden) = mine.partition { case (a, _) => !a.name.startsWith("_kf_") }
    val found = taken.map(i => BoundReference(input.length + i, theirs(i).dataType, nullable = true))
    val project = UnsafeProjection.create(own.map(_._2) ++ found ++ hidden.map(_._2))
    val nothing = new GenericInternalRow(theirs.length)
    val joined = new JoinedRow
    rows.flatMap { row =>
      val aside = sideOutput >= 0 && !row.isNullAt(sideOutput)
      val match_ = if (aside) null else relation.getValue(key(row))
      if (match_ == null && inner && !aside) None else Some(project(joined(row, if (match_ == null) nothing else match_)))
    }
  }
}
