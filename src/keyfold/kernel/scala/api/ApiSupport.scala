package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.physical.KernelStrategy
import org.apache.spark.sql.keyfold.rows.parsing.{RowOrigin, TextFormat}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets

/** What the parts of the kernel's entry point share. */
trait ApiSupport {
  protected def origin(
      stream: String, format: String, options: java.util.Map[String, String], files: Boolean): RowOrigin =
    RowOrigin(Option(stream), Option(format).flatMap(TextFormat.named), options.asScala.toMap, files)

  /** The leaves of a plan that are streams, in the order of Spark's offset log. */
  protected def streams(df: DataFrame): Seq[LogicalPlan] =
    plan(df).collect { case leaf: LeafNode if leaf.isStreaming => leaf }

  protected def json(value: AnyRef): String = KernelJson.mapper.writeValueAsString(value)

  protected def session(df: DataFrame): SparkSession = SparkDatasets.session(df)

  protected def plan(df: DataFrame): LogicalPlan = SparkDatasets.plan(df)

  protected def frame(df: DataFrame, plan: LogicalPlan): DataFrame = {
    KernelStrategy.install(session(df))
    SparkDatasets.frame(session(df), plan)
  }
}
