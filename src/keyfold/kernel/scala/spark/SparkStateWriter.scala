package org.apache.spark.sql.keyfold.spark

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqMetadata}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.SerializableConfiguration

/**
 * Writes a whole state, as of one batch, into a checkpoint without one: the state stores of the query's only
 * operator, their schema, and what Spark records of the operator.
 */
class SparkStateWriter(spark: SparkSession, checkpoint: String, batch: Long, families: StoredFamilies) {
  private val hadoop = spark.sessionState.newHadoopConf()
  private val root = new Path(checkpoint, "state")
  private val operator = new Path(root, "0")

  /** Returns the id of each partition's state, by which the commit of the batch refers to it. */
  def write(rows: DataFrame): Array[String] = {
    val partitions = rows.rdd.getNumPartitions
    val schema = new Path(operator, s"_stateSchema/default/${batch}_${UUID.randomUUID()}")
    writeSchema(schema)
    val name = StateStoreId.DEFAULT_STORE_NAME
    val stores = Array(StateStoreMetadataV2(name, 0, partitions, List(schema.toString)))
    val info = OperatorInfoV1(0, "transformWithStateExec")
    val metadata = OperatorStateMetadataV2(info, stores, families.properties.json)
    OperatorStateMetadataWriter.createWriter(operator, hadoop, metadata.version, Some(batch)).write(metadata)
    writePartitions(rows, schema, partitions)
  }

  private def writeSchema(path: Path): Unit = {
    val files = CheckpointFileManager.create(path, hadoop)
    files.mkdirs(path.getParent)
    val out = files.createAtomic(path, overwriteIfPossible = false)
    try {
      SchemaHelper.SchemaWriter.createSchemaWriter(3).write(families.schemas.sortBy(_.colFamilyName), out)
      out.close()
    } catch { case e: Throwable => out.cancel(); throw e }
  }

  private def writePartitions(rows: DataFrame, schema: Path, partitions: Int): Array[String] = {
    val written =
      families.schemas.map(f => f.colFamilyName -> StatePartitionWriterColumnFamilyInfo(f)).toMap
    val provider: Option[StateSchemaProvider] = Some(new InMemoryStateSchemaProvider(
      StateSchemaMetadata.createStateSchemaMetadata(root.toString, hadoop, List(schema.toString))))
    val conf = storeConf
    val shared = SerializableConfiguration.broadcast(spark.sparkContext, hadoop)
    val (target, at, store) = (checkpoint, batch, StateStoreId.DEFAULT_STORE_NAME)
    val ids = new Array[String](partitions)
    def task(context: TaskContext, found: Iterator[InternalRow]): String = {
      val writer = new StatePartitionAllColumnFamiliesWriter(
        conf, shared.value.value, context.partitionId(), target, 0L, store, at, written, provider)
      writer.write(found).stateStoreCkptId.orNull
    }
    SparkDatasets.runJob[String](rows, task, (i, id) => ids(i) = id)
    ids
  }

  /** The settings that the query's first batch has fixed. */
  private def storeConf: StateStoreConf = {
    val offsets = new StreamingQueryCheckpointMetadata(spark, checkpoint).offsetLog.get(batch).get
    val conf = spark.sessionState.conf.clone()
    OffsetSeqMetadata.setSessionConf(offsets.metadataOpt.get, conf)
    StateStoreConf(conf)
  }
}
