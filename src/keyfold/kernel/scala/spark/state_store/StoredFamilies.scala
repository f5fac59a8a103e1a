package org.apache.spark.sql.keyfold.spark.state_store

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{StateVariableType,
  TransformWithStateOperatorProperties, TransformWithStateVariableInfo}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The column families of a table's state, as `transformWithState` lays them out: the states by key, perhaps
 * kept windows by key and tick, perhaps timers, by key and by time.
 */
case class StoredFamilies(key: StructType, state: StructType, kept: Option[StructType], timeMode: TimeMode) {
  private val keyField = new StructType().add("key", key)
  private def time = new StructType().add("expiryTimestampMs", LongType, nullable = false)
  private val empty = new StructType().add("__dummy__", NullType)
  private val tick = new StructType().add("tick", LongType)

  /** What the names of timers begin with; None where there are none. */
  private val timers: Option[String] =
    if (timeMode == TimeMode.EventTime()) Some("$eventTimers")
    else if (timeMode == TimeMode.ProcessingTime()) Some("$procTimers")
    else None
  val byKey: Option[String] = timers.map(_ + "_keyToTimestamp")
  val byTime: Option[String] = timers.map(_ + "_timestampToKey")
  val keptKey: StructType = keyField.add("userKey", tick)
  val timerByKey: StructType = StructType(keyField ++ time)
  val timerByTime: StructType = StructType(time ++ keyField)

  private def family(name: String, keys: StructType, value: StructType, spec: KeyStateEncoderSpec,
      userKey: Option[StructType] = None) =
    StateStoreColFamilySchema(name, 0, keys, 0, value, Some(spec), userKey)

  def schemas: List[StateStoreColFamilySchema] = List(
    family(StateStore.DEFAULT_COL_FAMILY_NAME, key, new StructType().add("value", BinaryType),
      NoPrefixKeyStateEncoderSpec(key)),
    family("state", key, state, NoPrefixKeyStateEncoderSpec(key))) ++
    kept.map(family("kept", keptKey, _, PrefixKeyScanStateEncoderSpec(keptKey, 1), Some(tick))) ++
    byKey.map(family(_, timerByKey, empty, PrefixKeyScanStateEncoderSpec(timerByKey, 1))) ++
    byTime.map(family(_, timerByTime, empty, RangeKeyScanStateEncoderSpec(timerByTime, Seq(0))))

  /** What Spark records of the operator and compares at a start. */
  def properties: TransformWithStateOperatorProperties = {
    val variables =
      List(TransformWithStateVariableInfo("state", StateVariableType.ValueState, ttlEnabled = false)) ++
      kept.map(_ => TransformWithStateVariableInfo("kept", StateVariableType.MapState, ttlEnabled = false)) ++
      byKey.map(TransformWithStateVariableInfo(_, StateVariableType.TimerState, ttlEnabled = false))
    TransformWithStateOperatorProperties(timeMode.toString, OutputMode.Update().toString, variables)
  }

  /** The rows that Spark writes state from, and reads it as. */
  def rowSchema: StructType = new StructType()
    .add("partition_key", key).add("key_bytes", BinaryType).add("value_bytes", BinaryType)
    .add("column_family_name", StringType)
}

/** Makes such rows. */
class StoredRows(families: StoredFamilies) {
  private val keys = UnsafeProjection.create(families.key)
  private val states = UnsafeProjection.create(families.state)
  private lazy val keptKeys = UnsafeProjection.create(families.keptKey)
  private lazy val keptValues = UnsafeProjection.create(families.kept.get)
  private lazy val timersByKey = UnsafeProjection.create(families.timerByKey)
  private lazy val timersByTime = UnsafeProjection.create(families.timerByTime)
  private val output = UnsafeProjection.create(families.rowSchema)
  private val nothing = UnsafeProjection.create(Array[DataType](NullType))(InternalRow(null)).getBytes

  private def row(key: InternalRow, family: String, bytes: Array[Byte], value: Array[Byte]): InternalRow =
    output(InternalRow(key, bytes, value, UTF8String.fromString(family))).copy()

  def state(key: InternalRow, value: InternalRow): InternalRow =
    row(key, "state", keys(key).getBytes, states(value).getBytes)

  def kept(key: InternalRow, tick: Long, window: InternalRow): InternalRow =
    row(key, "kept", keptKeys(InternalRow(key, InternalRow(tick))).getBytes, keptValues(window).getBytes)

  def timer(key: InternalRow, atMs: Long): Seq[InternalRow] =
    families.byKey.map(row(key, _, timersByKey(InternalRow(key, atMs)).getBytes, nothing)).toSeq ++
      families.byTime.map(row(key, _, timersByTime(InternalRow(atMs, key)).getBytes, nothing))
}
