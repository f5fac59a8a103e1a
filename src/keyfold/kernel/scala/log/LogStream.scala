package org.apache.spark.sql.execution.keyfold.log

import org.apache.spark.sql.{DataFrame, SparkSession => AnySession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.execution.keyfold.spark.scan.SparkFileSource
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.types.StructType

/** A stream of the changes of a table in a plan; its source is created when a query starts. */
class LogStream(declared: DataSource, val use: Int) extends SparkFileSource(declared) {
  private val settings = CaseInsensitiveMap(options)

  override def createSource(checkpoint: String): Source = {
    val conf = session.sessionState.newHadoopConf()
    val snapshot = settings.get(LogStream.Snapshot).map(new ReaderSnapshot(_, conf))
    val log = new LogDirectory(settings(LogStream.Log), conf)
    new LogSource(session, log, snapshot, format, columns, CaseInsensitiveMap(options -- LogStream.own))
  }
}

object LogStream {
  private val Log = "log"
  private val Snapshot = "snapshot"
  private val Use = "use"
  private val own = Seq(Log, Snapshot, Use)

  /**
   * The changes of a table. `log` and `snapshot` are directories: that of the table's log, and that of the
   * snapshot which the reader may have to begin with. `use` tells the reader's uses of tables apart.
   */
  def changes(
      session: AnySession,
      log: Option[String],
      snapshot: Option[String],
      use: Int,
      columns: StructType,
      options: Map[String, String]): DataFrame = {
    val all = options ++ log.map(Log -> _) ++ snapshot.map(Snapshot -> _) + (Use -> use.toString)
    val parquet = DataSource(
      SparkDatasets.session(session), "parquet", userSpecifiedSchema = Some(columns), options = all)
    val stream = new LogStream(parquet, use)
    val output = toAttributes(LogSource.schema(stream.columns))
    SparkDatasets.frame(session, StreamingRelation(stream, LogSource.Name, output))
  }

  /** The use of a table that a leaf of a plan is. */
  def useOf(leaf: LogicalPlan): Option[Int] = leaf match {
    case StreamingRelation(stream: LogStream, _, _, _) => Some(stream.use)
    case _ => None
  }
}
