package org.apache.spark.sql.keyfold.enrich

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.{MergePartials, StatefulOperator, Unwrap}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.streaming.TimeMode
import org.apache.spark.sql.types.Metadata

/** The plan of an enrichment. */
object EnrichOperator {
  /**
   * The enriched stream; `both` has the columns of `EnrichLayout`. `names` are those of the processor's
   * output; `timeMetadata` marks its event time, if it has one.
   */
  def apply(
      spark: SparkSession,
      both: LogicalPlan,
      processor: EnrichProcessor,
      names: Seq[String],
      timeMetadata: Metadata,
      mode: TimeMode): DataFrame = {
    val keys = both.output.take(processor.layout.keys)
    val columns = names.zip(processor.output).map { case (name, e) =>
      val metadata = if (name == InternalColumns.Time) timeMetadata else Metadata.empty
      AttributeReference(name, e.dataType, nullable = true, metadata)()
    }
    val grouped = MergePartials(None, keys, keys, both)
    SparkDatasets.frame(spark, Unwrap(columns, StatefulOperator(grouped, keys, processor, mode)))
  }
}
