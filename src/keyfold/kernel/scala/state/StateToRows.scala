package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** States as Spark's statestore source reads them in, what a reader sees out: `key` and `value` structs, or of kept windows `key` and `user_map_value`. */
case class StateToRows(folding: KeyedProcessor, keys: Int, kept: Boolean) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val n = folding.stateSchema.length
    rows.flatMap(r => if (kept) folding.shownKept(r.getStruct(0, keys), r.getStruct(1, 3)) else folding.shown(r.getStruct(0, keys), r.getStruct(1, n)))
  }
}
