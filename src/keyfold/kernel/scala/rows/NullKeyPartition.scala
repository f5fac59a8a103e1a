package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Rejected rows travel under an all-null key, which no row that counts can have. */
class NullKeyPartition(keys: Seq[DataType], rest: Seq[DataType]) {
  private val project = UnsafeProjection.create((keys ++ rest).map(Literal(null, _)) :+ BoundReference(0, SideOutput.schema, nullable = false))
  def apply(side: InternalRow): InternalRow = project(InternalRow(side)).copy()
}
