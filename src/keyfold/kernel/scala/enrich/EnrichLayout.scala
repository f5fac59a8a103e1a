package org.apache.spark.sql.keyfold.enrich

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.{KeyedOperator, MergePartials, Unwrap}
import org.apache.spark.sql.keyfold.state.ColumnPacking
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * A stream that meets a table, both by the table's key. What comes through the shuffle: the key, a `row` of the stream or a `value` of the table, which of them it is
 * (`side`: 0 a row, 1 a value, 2 a value that is gone), the row's time, the order of changes, the row's weight, and the text of a row set aside.
 *
 * Rows without a value go on alone (`rows`), values without a row do (`values`), or not. `waits`: how long a row waits for a value, in microseconds; `follow`: rows are
 * kept, for `keep` or for good, and are said anew when their value changes.
 */
case class EnrichLayout(keys: Int, row: StructType, value: StructType, rows: Boolean, values: Boolean, waits: Option[Long], follow: Boolean, keep: Option[Long]) {
  val (rowAt, valueAt, side, time, order, weight, bad) = (keys, keys + 1, keys + 2, keys + 3, keys + 4, keys + 5, keys + 6)

  /** What a meeting says, of which `out` is made: the key, a row, a value as the stream goes on with it, the row's time, a weight and a text. */
  def said(in: Seq[Attribute], value: Attribute): Seq[Attribute] = in.take(keys) ++ Seq(in(rowAt), value, in(time), in(weight), in(bad))
}

object EnrichLayout {
  /** The columns of `EnrichLayout` behind the key. */
  val Columns: Seq[String] = Seq("row", "value", "side", "time", "order", "weight", "bad")

  /** The stream that a meeting makes of rows with the columns of `EnrichLayout`; its event time, if it has one, has the mark `mark`. */
  def plan(spark: SparkSession, both: LogicalPlan, met: EnrichProcessor, names: Seq[String], mark: Metadata, clock: TimeMode): DataFrame = {
    val keys = both.output.take(met.m.keys)
    val columns = names.zip(met.out).map { case (n, e) => AttributeReference(n, e.dataType, nullable = true, if (n == InternalColumns.Time) mark else Metadata.empty)() }
    Dataset.ofRows(spark, Unwrap(columns, KeyedOperator(MergePartials(None, keys, keys, both), keys, met, clock)))
  }
}
