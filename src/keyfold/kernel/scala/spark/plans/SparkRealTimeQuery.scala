package org.apache.spark.sql.keyfold.spark.plans

import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator

import org.apache.spark.SparkContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.{Dataset, SparkSession, StreamingQuery}
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, RealTimeModeAllowlist}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.OutputMode

/** A query in Spark's real-time mode with a sink of the kernel's own, which Spark's API can't be given. */
object SparkRealTimeQuery {
  def start(df: DataFrame, name: String, checkpoint: String, sink: Table, batchMs: Long): StreamingQuery = {
    val session = SparkDatasets.session(df)
    // Spark asks at every batch, in the session that the query was started in, and knows no operators but
    // its own. It would then warn at every batch.
    session.conf.set(SQLConf.STREAMING_REAL_TIME_MODE_ALLOWLIST_CHECK.key, "false")
    Configurator.setLevel(RealTimeModeAllowlist.getClass.getName.stripSuffix("$"), Level.ERROR)
    session.sessionState.streamingQueryManager.startQuery(
      userSpecifiedName = Some(name),
      userSpecifiedCheckpointLocation = Some(checkpoint),
      df = df.asInstanceOf[Dataset[_]],
      extraOptions = Map.empty,
      sink = sink,
      outputMode = OutputMode.Update(),
      trigger = RealTimeTrigger(batchMs))
  }

  /** The batch that the calling thread of a query runs. */
  def batch: Long = SparkContext.getActive.get.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY).toLong

  /** How many tasks can run at the same time; a real-time query holds its own for as long as it runs. */
  def slots(session: SparkSession): Int = {
    val context = session.sparkContext
    context.maxNumConcurrentTasks(context.resourceProfileManager.defaultResourceProfile)
  }

  /** A source or sink of Spark's by its name, as the calling thread's class loader finds it. */
  def provider(session: SparkSession, name: String): TableProvider = {
    val found = DataSource.lookupDataSource(name, session.sessionState.conf)
    found.getConstructor().newInstance().asInstanceOf[TableProvider]
  }
}
