package org.apache.spark.sql.execution.keyfold.spark.memory

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}
import org.apache.spark.sql.execution.joins.HashedRelation
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets

/** Rows by a unique key, in the hash table of Spark's broadcast joins. */
final class SparkHashedRelation private (relation: HashedRelation) extends Serializable {
  /** For one task: the table itself is shared by all tasks of an executor and keeps a cursor. */
  def readOnlyCopy(): SparkHashedRelation = new SparkHashedRelation(relation.asReadOnlyCopy())

  /** The row of a key, or null. */
  def get(key: InternalRow): InternalRow = relation.getValue(key)

  def broadcast(session: SparkSession): Broadcast[SparkHashedRelation] =
    SparkDatasets.session(session).sparkContext.broadcast(this)
}

object SparkHashedRelation {
  def apply(rows: Seq[UnsafeRow], key: Seq[Expression]): SparkHashedRelation =
    new SparkHashedRelation(HashedRelation(rows.iterator, key, math.max(rows.length, 1)))
}
