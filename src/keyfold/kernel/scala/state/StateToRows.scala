package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.physical.PartitionStep

/**
 * The table rows of stored states, which Spark's statestore source reads as structs: `key` and `value`, or
 * for kept windows `key` and `user_map_value`.
 */
case class StateToRows(processor: KeyedProcessor, keys: Int, kept: Boolean) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val width = (if (kept) processor.keptSchema else processor.stateSchema).length
    rows.flatMap { r =>
      val (key, stored) = (r.getStruct(0, keys), r.getStruct(1, width))
      if (kept) processor.shownKept(key, stored) else processor.shown(key, stored)
    }
  }
}
