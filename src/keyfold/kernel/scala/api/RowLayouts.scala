package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.state.{RetractionLayout, ShuffledRowLayout}
import org.apache.spark.sql.types._

/** Partial states through the shuffle: the key, perhaps a pane of time, the fold's state, the side output. */
case class PartialStateLayout(keys: Seq[Attribute], pane: Option[Attribute], state: Seq[Attribute]) {
  /** What partial states are merged by. */
  def group: Seq[Attribute] = keys ++ pane
  def shuffled: ShuffledRowLayout =
    ShuffledRowLayout(group ++ state :+ SideOutput.attribute(), group.length, ordered = false)
}

object PartialStateLayout {
  def apply(keys: Seq[Attribute], paned: Boolean, fold: AggregateFold): PartialStateLayout = {
    val pane = if (paned) Some(AttributeReference(InternalColumns.Pane, LongType)()) else None
    PartialStateLayout(keys, pane, fold.state.map(s => AttributeReference(s.name, s.dataType)()))
  }
}

/**
 * Rows through the shuffle, one by one: key, columns, in a retracting stream the row's id, its weight and
 * the order of its change, then the order stamp, the whole row, the side output.
 */
case class RowLayout(
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    retracting: RetractingColumns,
    order: Attribute,
    whole: Attribute) {
  val sideOutput: Attribute = SideOutput.attribute()
  private val attributes = keys ++ columns ++ retracting.all ++ Seq(order, whole, sideOutput)
  val shuffled: ShuffledRowLayout = ShuffledRowLayout(attributes, keys.length, ordered = true)

  /** A row as it is retained: its time, its columns and, where it has one, its id. */
  val retained: Seq[AttributeReference] = AttributeReference(InternalColumns.Newest, LongType)() +:
    (columns ++ retracting.id).map(_.asInstanceOf[AttributeReference])

  /** Where retractions are recognized and find the rows that they retract. */
  def retraction: RetractionLayout = {
    def at(column: Option[Attribute], in: Seq[Attribute]) = column.fold(-1)(in.indexOf(_))
    RetractionLayout(at(retracting.weight, attributes), at(retracting.id, attributes),
      at(retracting.change, attributes), at(retracting.id, retained))
  }
}

/** The columns that the rows of a retracting stream have beside their own. */
case class RetractingColumns(id: Option[Attribute], weight: Option[Attribute], change: Option[Attribute]) {
  def all: Seq[Attribute] = (id ++ weight ++ change).toSeq
}

object RetractingColumns {
  val None: RetractingColumns = RetractingColumns(scala.None, scala.None, scala.None)

  def apply(weight: Option[Attribute], rowId: Option[Attribute]): RetractingColumns = RetractingColumns(
    rowId.map(_ => AttributeReference(InternalColumns.RowId, BinaryType)()), weight.map(_.newInstance()),
    rowId.map(_ => AttributeReference("change", LongType)()))
}

object RowLayout {
  /** `stamps`: the types of the order stamp and of the whole row. */
  def apply(
      keys: Seq[Attribute],
      columns: Seq[Attribute],
      retracting: RetractingColumns,
      stamps: Seq[DataType]): RowLayout = {
    val Seq(order, whole) = stamps
    RowLayout(keys, columns, retracting, AttributeReference(InternalColumns.Order, order)(),
      AttributeReference(InternalColumns.Whole, whole)())
  }
}

/** Rows of keys that share buckets: the bucket, the key, columns, order stamp, the side output. */
case class BucketedRowLayout(
    bucket: Attribute,
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    order: Attribute) {
  def group: Seq[Attribute] = bucket +: keys
  val attributes: Seq[Attribute] = group ++ columns ++ Seq(order, SideOutput.attribute())
  def shuffled: ShuffledRowLayout = ShuffledRowLayout(attributes, group.length, ordered = true)
}

object BucketedRowLayout {
  def apply(
      bucket: NamedExpression,
      keys: Seq[Attribute],
      columns: Seq[(String, DataType)],
      order: DataType): BucketedRowLayout = BucketedRowLayout(
    AttributeReference(bucket.name, bucket.dataType)(),
    keys,
    columns.map { case (name, dataType) => AttributeReference(name, dataType)() },
    AttributeReference(InternalColumns.Order, order)())
}

/** A row of a table's changelog: operation, key, columns, perhaps the previous row, the side output. */
case class ChangeLayout(fold: AggregateFold) {
  private def named(columns: Seq[NamedExpression]) =
    columns.map(c => AttributeReference(c.name, c.dataType)())
  private val previous =
    if (fold.previous) Some(AttributeReference(InternalColumns.Prev, fold.seen)()) else None
  /** The change itself, which is what readers of the table see. */
  val change: Seq[Attribute] =
    (AttributeReference(InternalColumns.Op, StringType, nullable = false)() +: named(fold.keys)) ++
      named(fold.result) ++ previous
  val attributes: Seq[Attribute] = change :+ SideOutput.attribute()
  def schema: StructType = StructType(change.map(a => StructField(a.name, a.dataType)))
}
