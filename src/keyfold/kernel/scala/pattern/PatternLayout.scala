package org.apache.spark.sql.keyfold.pattern

import java.util.Comparator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.state.{RetainedRowsProcessor, ShuffledRowLayout}
import org.apache.spark.sql.types._

/**
 * The columns that come through the shuffle to a pattern: the timer bucket of the key, the key, the columns
 * that are stored of a row, a bit for each condition that the row satisfies, the order stamp (event time and
 * arrival), and the side output.
 */
case class PatternLayout(input: Seq[Attribute], keys: Int) {
  private val prefix = 1 + keys
  def bucket: Attribute = input.head
  def key: Seq[Attribute] = input.slice(1, prefix)
  def row: Attribute = input(prefix)
  def mask: Attribute = input(prefix + 1)
  def stamp: Attribute = input(prefix + 2)
  /** Null if the row has none. */
  def sideOutput(shuffled: InternalRow): InternalRow = SideOutput.of(shuffled, prefix + 3)

  /** For `KeyedProcessor`, which reads the prefix alone: a pattern builds its own side outputs. */
  def shuffled: ShuffledRowLayout = ShuffledRowLayout(input, prefix, ordered = true)
}

object PatternLayout {
  def apply(bucket: Attribute, key: Seq[Attribute], row: DataType): PatternLayout = {
    val rest = Seq("row" -> row, "mask" -> LongType, InternalColumns.Order -> OrderStamp.schema)
    val columns = rest.map { case (name, t) => AttributeReference(name, t)() } :+ SideOutput.attribute()
    PatternLayout((bucket +: key) ++ columns, key.length)
  }
}

/** A row that waits for its turn: its key, stored columns, satisfied conditions, event time and arrival. */
case class BufferedRowLayout(key: StructType, row: StructType) {
  import BufferedRowLayout._

  val schema: StructType = new StructType()
    .add("key", key).add("row", row).add("mask", LongType).add("time", LongType).add("arrival", LongType)

  def key(buffered: InternalRow): InternalRow = buffered.getStruct(Key, key.length)
  def row(buffered: InternalRow): InternalRow = buffered.getStruct(Row, row.length)
  def mask(buffered: InternalRow): Long = buffered.getLong(Mask)
  def time(buffered: InternalRow): Long = buffered.getLong(Time)

  /** Makes buffered rows of shuffled ones. */
  def projection(from: PatternLayout): UnsafeProjection = {
    val names = key.map(f => Literal(f.name))
    val (time, arrival) = (OrderStamp.micros(from.stamp), OrderStamp.arrival(from.stamp))
    val keyStruct = CreateNamedStruct(names.zip(from.key).flatMap { case (n, a) => Seq(n, a) })
    UnsafeProjection.create(Seq(keyStruct, from.row, from.mask, time, arrival), from.input)
  }
}

object BufferedRowLayout {
  private val Key = 0
  private val Row = 1
  private val Mask = 2
  /** The column that `EventTimeBuffer` orders rows by. */
  val Time = 3
  private val Arrival = 4

  def of(keys: Seq[Attribute], row: StructType): BufferedRowLayout =
    BufferedRowLayout(RetainedRowsProcessor.schema(keys), row)

  val byArrival: Comparator[InternalRow] =
    (x, y) => java.lang.Long.compare(x.getLong(Arrival), y.getLong(Arrival))
  val byTimeAndArrival: Comparator[InternalRow] = OrderStamp.order(Time, Arrival)
}
