package org.apache.spark.sql.keyfold.spark

import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetMap, OffsetSeq}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state.StateRewriter
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.{DataFrame, SparkSession => AnySession}
import org.apache.spark.util.SerializableConfiguration

/** A state store of a query: the number of its operator, and its name. */
case class StateStoreName(operator: Long, store: String)

/**
 * Writes the state of a stopped query anew, as a batch of its own after the last one, which reads no rows.
 * Spark's `StateRewriter` writes the files; it is made for another number of partitions, and this is the same
 * with other rows.
 */
object SparkStateRewriter {
  /** The state stores of a checkpoint, in the order in which Spark rewrites them. */
  def stores(session: AnySession, checkpoint: String, batch: Long): Seq[StateStoreName] = {
    val conf = SparkDatasets.session(session).sessionState.newHadoopConf()
    val reader = new StateMetadataPartitionReader(checkpoint, new SerializableConfiguration(conf), batch)
    reader.allOperatorStateMetadata.toSeq.flatMap { operator =>
      operator.stateStoresMetadata.map(s => StateStoreName(operator.operatorInfo.operatorId, s.storeName))
    }
  }

  /**
   * Adds a batch whose state is `rows`, those of each store in the order of `stores`, in the columns in which
   * Spark reads all column families of it; returns its number. The last batch must be committed.
   */
  def rewrite(session: AnySession, checkpoint: String, rows: Seq[DataFrame], partitions: Int): Long = {
    val hadoop = SparkDatasets.session(session).sessionState.newHadoopConf()
    val logs = new StreamingQueryCheckpointMetadata(SparkDatasets.session(session), checkpoint)
    val last = logs.commitLog.getLatestBatchId().get
    val batch = last + 1
    val begun = logs.offsetLog.get(last).get match {
      case seq: OffsetSeq => logs.offsetLog.add(batch, seq)
      case map: OffsetMap => logs.offsetLog.add(batch, map)
    }
    require(begun, s"batch $batch of $checkpoint has begun")
    // Rows that moved to other keys, or were added, go to the partition of their key.
    val next = rows.iterator
    val placed = (_: DataFrame) => next.next().repartition(partitions, col("partition_key"))
    val ids = new StateRewriter(SparkDatasets.session(session), last, batch, checkpoint, hadoop,
      transformFunc = Some(placed), writeCheckpointMetadata = Some(logs)).run()
    require(!next.hasNext, s"$checkpoint has fewer state stores than were given")
    val committed = logs.commitLog.get(last).get.withStateUniqueIds(ids)
    require(logs.commitLog.add(batch, committed), s"batch $batch of $checkpoint is committed")
    batch
  }
}
