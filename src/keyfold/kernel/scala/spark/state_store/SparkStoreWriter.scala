package org.apache.spark.sql.keyfold.spark.state_store

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.util.SerializableConfiguration

/**
 * A column family of a state store, as the operator declares it. `manyValues`: a key has a list of values.
 * `internal`: an index, which is not counted among the state's keys.
 */
case class StoreFamily(schema: StateStoreColFamilySchema, manyValues: Boolean, internal: Boolean) {
  def name: String = schema.colFamilyName
}

/**
 * Writes state stores as of one batch, each partition into a store that begins empty. Spark's own writer of
 * them (`StatePartitionAllColumnFamiliesWriter`) takes no join's column family for one with many values per
 * key: it keeps the last value of each key, in a form that neither the join nor the state reader can read.
 */
class SparkStoreWriter(spark: SparkSession, checkpoint: String, batch: Long) {
  private val hadoop = spark.sessionState.newHadoopConf()
  private val root = new Path(checkpoint, "state").toString

  /**
   * Writes a store from rows in the columns in which Spark reads all column families of it, which are in the
   * partitions they belong to. Returns the id of each partition's state, by which the commit of the batch
   * refers to it; null where the checkpoint has no such ids. `files`: the store's schema, for an operator
   * whose values are encoded with the number of their schema.
   */
  def write(
      operator: Long,
      store: String,
      families: Seq[StoreFamily],
      files: Option[Seq[Path]],
      rows: DataFrame): Array[String] = {
    val schemas: Option[StateSchemaProvider] = files.map(paths => new InMemoryStateSchemaProvider(
      StateSchemaMetadata.createStateSchemaMetadata(root, hadoop, paths.map(_.toString).toList)))
    val shared = SerializableConfiguration.broadcast(spark.sparkContext, hadoop)
    // Locals: a closure over this object would ship it to the tasks.
    val (conf, directory, version) = (storeConf, root, batch)
    def task(context: TaskContext, found: Iterator[InternalRow]): String = {
      val id = StateStoreId(directory, operator, context.partitionId(), store)
      new StorePartition(id, families, schemas, conf, shared.value.value).write(version, found)
    }
    val ids = scala.collection.mutable.TreeMap.empty[Int, String]
    SparkDatasets.runJob[String](rows, task, (partition, id) => ids(partition) = id)
    ids.values.toArray
  }

  /** The settings that the query's first batch has fixed. */
  private def storeConf: StateStoreConf = {
    val offsets = new StreamingQueryCheckpointMetadata(spark, checkpoint).offsetLog.get(batch).get
    val conf = spark.sessionState.conf.clone()
    OffsetSeqMetadata.setSessionConf(offsets.metadataOpt.get, conf)
    StateStoreConf(conf)
  }
}

/** A partition of a store in the making. */
private class StorePartition(
    id: StateStoreId,
    families: Seq[StoreFamily],
    schemas: Option[StateSchemaProvider],
    conf: StateStoreConf,
    hadoop: Configuration) {
  private class Target(val family: StoreFamily) {
    val key = new UnsafeRow(family.schema.keySchema.length)
    val value = new UnsafeRow(family.schema.valueSchema.length)
  }
  private val targets = families.map(f => f.name -> new Target(f)).toMap
  private val named = families.filterNot(_.name == StateStore.DEFAULT_COL_FAMILY_NAME)

  private val provider = {
    // A join has no family of this name, but every store has one.
    val default = families.find(_.name == StateStore.DEFAULT_COL_FAMILY_NAME).getOrElse(families.head).schema
    val spec = if (targets.contains(StateStore.DEFAULT_COL_FAMILY_NAME)) default.keyStateEncoderSpec.get
      else NoPrefixKeyStateEncoderSpec(default.keySchema)
    StateStoreProvider.createAndInit(StateStoreProviderId(id, UUID.randomUUID()), default.keySchema,
      default.valueSchema, spec, named.nonEmpty, conf, hadoop, useMultipleValuesPerKey = false, schemas)
  }

  /** Writes all rows as one version of the store; returns its id. */
  def write(version: Long, rows: Iterator[InternalRow]): String = try {
    val store = provider.getStore(version, stateStoreCkptId = None, loadEmpty = true)
    try {
      named.foreach(f => store.createColFamilyIfAbsent(f.name, f.schema.keySchema, f.schema.valueSchema,
        f.schema.keyStateEncoderSpec.get, f.manyValues, f.internal))
      rows.foreach(put(store, _))
      store.commit()
      store.getStateStoreCheckpointInfo().stateStoreCkptId.orNull
    } finally if (!store.hasCommitted) store.abort()
  } finally provider.close()

  private def put(store: StateStore, row: InternalRow): Unit = {
    val target = targets(row.getString(3))
    val (key, value) = (row.getBinary(1), row.getBinary(2))
    target.key.pointTo(key, key.length)
    target.value.pointTo(value, value.length)
    if (target.family.manyValues) store.merge(target.key, target.value, target.family.name)
    else store.put(target.key, target.value, target.family.name)
  }
}
