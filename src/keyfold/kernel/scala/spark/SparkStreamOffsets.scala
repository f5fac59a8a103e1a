package org.apache.spark.sql.keyfold.spark

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.SupportsRead
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl

/** The offsets of a source that Spark streams, asked for without a query. */
object SparkStreamOffsets {
  /** The first and the last ones, as the source writes them; none at all if no topic matches a pattern. */
  def apply(plan: LogicalPlan, directory: String): Array[String] = {
    val relation = plan.collectFirst { case r: StreamingRelationV2 => r }.get
    val scan = relation.table.asInstanceOf[SupportsRead].newScanBuilder(relation.extraOptions).build()
    val stream = scan.toMicroBatchStream(directory)
    try {
      val first = stream.initialOffset()
      val last = stream match {
        case s: SupportsAdmissionControl => s.latestOffset(first, s.getDefaultReadLimit)
        case other => other.latestOffset()
      }
      Array(first.json, if (last == null) first.json else last.json)
    } finally stream.stop()
  }
}
