package org.apache.spark.sql.keyfold.spark.plans

import scala.reflect.ClassTag

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.execution.{SQLExecution, SparkStrategy}
import org.apache.spark.sql.{Column, DataFrame, Row, SparkSession => AnySession}

/**
 * DataFrames and columns as the plans and expressions behind them. Spark keeps this in the classic
 * implementation of its API, which is the one that runs inside the driver's JVM.
 */
object SparkDatasets {
  def session(df: DataFrame): SparkSession = session(df.sparkSession)

  def session(any: AnySession): SparkSession = any.asInstanceOf[SparkSession]

  /** The plan that a DataFrame was declared with, analyzed and not yet optimized. */
  def plan(df: DataFrame): LogicalPlan = classic(df).logicalPlan

  def frame(session: AnySession, plan: LogicalPlan): DataFrame = Dataset.ofRows(this.session(session), plan)

  def analyzed(df: DataFrame): LogicalPlan = classic(df).queryExecution.analyzed

  def expression(column: Column): Expression = ExpressionUtils.expression(column)

  def column(expression: Expression): Column = ExpressionUtils.column(expression)

  /** All rows of a batch DataFrame in Spark's internal form, read under an entry in Spark's SQL UI. */
  def collect(df: DataFrame): Array[UnsafeRow] = {
    val execution = classic(df).queryExecution
    val rows = SQLExecution.withNewExecutionId(execution)(execution.executedPlan.executeCollect())
    rows.map(_.asInstanceOf[UnsafeRow])
  }

  /** Runs a function on each partition of a DataFrame's rows; `done` gets the results as they arrive. */
  def runJob[T: ClassTag](
      df: DataFrame, task: (TaskContext, Iterator[InternalRow]) => T, done: (Int, T) => Unit): Unit = {
    val execution = classic(df).queryExecution
    SQLExecution.withNewExecutionId(execution) {
      val rows = execution.toRdd
      session(df).sparkContext.runJob(rows, task, rows.partitions.indices, done)
    }
  }

  /** Adds a planning strategy to a session, once; queries clone their session and keep its strategies. */
  def install(session: AnySession, strategy: SparkStrategy): Unit = synchronized {
    val methods = this.session(session).experimental
    val installed = methods.extraStrategies
    if (!installed.contains(strategy)) methods.extraStrategies = installed :+ strategy
  }

  private def classic(df: DataFrame): Dataset[Row] = df.asInstanceOf[Dataset[Row]]
}
