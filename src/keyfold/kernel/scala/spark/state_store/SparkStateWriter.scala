package org.apache.spark.sql.keyfold.spark.state_store

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state._

/**
 * Writes the whole state of a table, as of one batch, into a checkpoint without it: the state stores of the
 * query's operator 0, their schema, and what Spark records of the operator.
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
    val written = families.schemas.map { f =>
      StoreFamily(f, manyValues = false, SparkStateFamilies.isInternal(f.colFamilyName))
    }
    new SparkStoreWriter(spark, checkpoint, batch).write(0, name, written, Some(Seq(schema)), rows)
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
}
