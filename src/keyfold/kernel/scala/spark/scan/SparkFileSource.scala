package org.apache.spark.sql.execution.keyfold.spark.scan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.sources.StreamSourceProvider
import org.apache.spark.sql.types.StructType

/** A stream of files in a plan that creates another `Source` than Spark's own when a query starts. */
abstract class SparkFileSource(declared: DataSource) extends DataSource(
    declared.sparkSession, declared.className, declared.paths, declared.userSpecifiedSchema,
    declared.partitionColumns, declared.bucketSpec, declared.options, declared.catalogTable,
    declared.userSpecifiedStreamingSourceName) {
  // A plan with this source must not equal the one with Spark's: `transform` would keep the latter.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[SparkFileSource]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)

  protected def session: SparkSession = sparkSession.asInstanceOf[SparkSession]
  protected def format: FileFormat = providingInstance().asInstanceOf[FileFormat]

  /** The declared columns, or those that were inferred when the stream was declared. */
  def columns: StructType = declared.userSpecifiedSchema.getOrElse(declared.sourceInfo.schema).asNullable
}

object SparkFileSource {
  /** The plan with Spark's file sources replaced, all of which stream through Spark's first source API. */
  def replace(plan: LogicalPlan)(replacement: DataSource => SparkFileSource): LogicalPlan = plan.transform {
    case relation: StreamingRelation if isSparks(relation.dataSource) =>
      val source = replacement(relation.dataSource)
      // A declared schema is final, columns and order: directories such as `day=1` must add none.
      val declared = relation.dataSource.userSpecifiedSchema.isDefined
      val output = if (declared) toAttributes(source.columns) else relation.output
      relation.copy(dataSource = source, output = output)
  }

  /** The replaced file sources of a plan. */
  def in(plan: LogicalPlan): Seq[SparkFileSource] = plan.collect {
    case StreamingRelation(source: SparkFileSource, _, _, _) => source
  }

  private def isSparks(source: DataSource): Boolean = source.providingInstance() match {
    case _: StreamSourceProvider => false
    case format => format.isInstanceOf[FileFormat] && !source.isInstanceOf[SparkFileSource]
  }
}
