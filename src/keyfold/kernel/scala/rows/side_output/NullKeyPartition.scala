package org.apache.spark.sql.keyfold.rows.side_output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * Side outputs as rows for the shuffle: all columns are null but the side output, so that they reach the
 * partition of the all-null key, which no admitted row has.
 */
class NullKeyPartition(keys: Seq[DataType], rest: Seq[DataType]) {
  private lazy val project = UnsafeProjection.create(
    (keys ++ rest).map(Literal(null, _)) :+ BoundReference(0, SideOutput.schema, nullable = false))

  def apply(side: InternalRow): InternalRow = project(InternalRow(side)).copy()
}
