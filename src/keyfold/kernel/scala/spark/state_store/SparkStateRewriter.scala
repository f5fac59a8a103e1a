package org.apache.spark.sql.keyfold.spark.state_store

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetMap, OffsetSeq, OffsetSeqMetadata}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.{DataFrame, SparkSession => AnySession}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.util.SerializableConfiguration

/** A state store of a query: the number of its operator, and its name. */
case class StateStoreName(operator: Long, store: String)

/**
 * Rewrites the state of a stopped query, as a batch of its own after the last one, which reads no rows:
 * with other rows, or in another number of partitions. It is what Spark's `StateRewriter` and
 * `OfflineStateRepartitionRunner` do, which can't write a join (see `SparkStoreWriter`).
 */
object SparkStateRewriter {
  /**
   * The stateful operators of a checkpoint: each one's number, name and properties, which are JSON. Spark has
   * a source for them, whose first query costs a cold Spark most of a second.
   */
  def described(session: AnySession, checkpoint: String, batch: Long): Seq[(Long, String, String)] =
    operators(SparkDatasets.session(session), checkpoint, batch).map { operator =>
      val properties = operator match {
        case v2: OperatorStateMetadataV2 => v2.operatorPropertiesJson
        case _ => ""
      }
      (operator.operatorInfo.operatorId, operator.operatorInfo.operatorName, properties)
    }

  /** The state stores of a checkpoint, in the order in which they are rewritten. */
  def stores(session: AnySession, checkpoint: String, batch: Long): Seq[StateStoreName] =
    operators(SparkDatasets.session(session), checkpoint, batch).flatMap { operator =>
      operator.stateStoresMetadata.map(s => StateStoreName(operator.operatorInfo.operatorId, s.storeName))
    }

  /**
   * Adds a batch whose state is `rows`, those of each store in the order of `stores`, in the columns in which
   * Spark reads all column families of it; returns its number. The last batch must be committed.
   */
  def rewrite(session: AnySession, checkpoint: String, rows: Seq[DataFrame], partitions: Int): Long = {
    val spark = SparkDatasets.session(session)
    val logs = new StreamingQueryCheckpointMetadata(spark, checkpoint)
    val last = logs.commitLog.getLatestBatchId().get
    val commit = logs.commitLog.get(last).get
    val format = spark.sessionState.conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    require(commit.version == format, s"$checkpoint has format ${commit.version}, the session $format")
    val batch = begin(logs, last, partitions)
    val found = operators(spark, checkpoint, last)
    val next = rows.iterator
    val ids = found.map { operator =>
      val of = new StoredOperator(spark, checkpoint, operator)
      val stores = operator.stateStoresMetadata.map(of.write(_, batch, placed(next.next(), partitions)))
      require(stores.forall(_.length == partitions), s"operator ${operator.operatorInfo.operatorId} of " +
        s"$checkpoint was written in ${stores.map(_.length).mkString(", ")} partitions")
      operator.operatorInfo.operatorId -> stores.toArray.transpose
    }.toMap
    require(!next.hasNext, s"$checkpoint has fewer state stores than were given")
    found.foreach(new StoredOperator(spark, checkpoint, _).record(batch, partitions))
    val committed = commit.withStateUniqueIds(if (format > 1) Some(ids) else None)
    require(logs.commitLog.add(batch, committed), s"batch $batch of $checkpoint is committed")
    batch
  }

  /** Rows in the partitions of their keys: another number of them, or rows that moved to other keys. */
  private def placed(rows: DataFrame, partitions: Int): DataFrame =
    rows.select("partition_key", "key_bytes", "value_bytes", "column_family_name")
      .repartition(partitions, col("partition_key"))

  private def operators(spark: SparkSession, checkpoint: String, batch: Long): Seq[OperatorStateMetadata] = {
    val hadoop = new SerializableConfiguration(spark.sessionState.newHadoopConf())
    new StateMetadataPartitionReader(checkpoint, hadoop, batch).allOperatorStateMetadata.toSeq
  }

  /** Plans a batch that reads nothing after the last one. */
  private def begin(logs: StreamingQueryCheckpointMetadata, last: Long, partitions: Int): Long = {
    val sized = SQLConf.SHUFFLE_PARTITIONS.key -> partitions.toString
    def of(m: OffsetSeqMetadata) = m.copy(conf = m.conf + sized)
    val begun = logs.offsetLog.get(last).get match {
      case v1: OffsetSeq => logs.offsetLog.add(last + 1,
        v1.copy(metadataOpt = v1.metadataOpt.map(m => of(m.asInstanceOf[OffsetSeqMetadata]))))
      case v2: OffsetMap => logs.offsetLog.add(last + 1,
        v2.copy(metadata = v2.metadata.copy(conf = v2.metadata.conf + sized)))
    }
    require(begun, s"batch ${last + 1} has begun")
    last + 1
  }
}

/** A stateful operator, as a checkpoint describes it. */
private class StoredOperator(spark: SparkSession, checkpoint: String, metadata: OperatorStateMetadata) {
  private val hadoop = spark.sessionState.newHadoopConf()
  private val root = new Path(checkpoint, "state").toString
  private val id = metadata.operatorInfo.operatorId
  private val many = SparkStateFamilies.withManyValues(metadata)

  def write(store: StateStoreMetadata, batch: Long, rows: DataFrame): Array[String] = {
    val files = store match {
      case v2: StateStoreMetadataV2 => v2.stateSchemaFilePaths.map(new Path(_))
      case _ => Nil
    }
    val evolving = if (SparkStateFamilies.evolves(metadata)) Some(files) else None
    new SparkStoreWriter(spark, checkpoint, batch)
      .write(id, store.storeName, families(store, files), evolving, rows)
  }

  private def families(store: StateStoreMetadata, files: List[Path]): Seq[StoreFamily] = {
    val name = StateStoreId(root, id, StateStore.PARTITION_ID_TO_CHECK_SCHEMA, store.storeName)
    val schemas = new StateSchemaCompatibilityChecker(
      StateStoreProviderId(name, UUID.randomUUID()), hadoop, oldSchemaFilePaths = files).readSchemaFile()
    schemas.map { schema =>
      // Only stores of the first version don't say how keys are encoded.
      val spec = schema.keyStateEncoderSpec.getOrElse(
        if (store.numColsPrefixKey == 0) NoPrefixKeyStateEncoderSpec(schema.keySchema)
        else PrefixKeyScanStateEncoderSpec(schema.keySchema, store.numColsPrefixKey))
      StoreFamily(schema.copy(keyStateEncoderSpec = Some(spec)), many(schema.colFamilyName),
        SparkStateFamilies.isInternal(schema.colFamilyName))
    }
  }

  /** Records another number of partitions, from a batch on. */
  def record(batch: Long, partitions: Int): Unit = metadata match {
    case v2: OperatorStateMetadataV2 if v2.stateStoreInfo.exists(_.numPartitions != partitions) =>
      val resized = v2.copy(stateStoreInfo = v2.stateStoreInfo.map(_.copy(numPartitions = partitions)))
      OperatorStateMetadataWriter.createWriter(new Path(root, id.toString), hadoop, resized.version,
        Some(batch)).write(resized)
    case _ =>
  }
}
