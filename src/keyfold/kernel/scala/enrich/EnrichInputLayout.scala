package org.apache.spark.sql.keyfold.enrich

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.types.StructType

/**
 * The columns that both sides of an enrichment send through the shuffle, by name; `EnrichLayout` has their
 * places.
 */
case class EnrichInputLayout(
    keys: Seq[Attribute],
    row: Attribute,
    value: Attribute,
    side: Attribute,
    time: Attribute,
    order: Attribute,
    weight: Attribute,
    sideOutput: Attribute) {
  def rowType: StructType = row.dataType.asInstanceOf[StructType]
  def valueType: StructType = value.dataType.asInstanceOf[StructType]
  def rowFields: Seq[GetStructField] = rowType.indices.map(GetStructField(row, _))
  def valueFields: Seq[GetStructField] = valueType.indices.map(GetStructField(value, _))
}

object EnrichInputLayout {
  /** The layout of a plan; `keys`: how many of its columns are the key, which comes first. */
  def of(plan: LogicalPlan, keys: Int): EnrichInputLayout = {
    val (key, Seq(row, value, side, time, order, weight, sideOutput)) = plan.output.splitAt(keys)
    EnrichInputLayout(key, row, value, side, time, order, weight, sideOutput)
  }

  /** Rows of the stream: they have no value. */
  def streamSide(rows: LogicalPlan, in: EnrichRequestLayout, value: StructType): LogicalPlan =
    project(rows, in.keys,
      Seq(in.row, Literal(null, value), Literal(EnrichLayout.StreamRow), in.time, Literal(0L), Literal(1),
        in.sideOutput))

  /**
   * Rows of the table: what its fold reads of them is the value. `order`: the stamp of event time and
   * arrival.
   */
  def tableSide(
      rows: LogicalPlan,
      keys: Seq[Attribute],
      columns: Seq[Attribute],
      order: Attribute,
      sideOutput: Attribute,
      row: StructType): LogicalPlan = {
    val value = CreateNamedStruct(columns.flatMap(a => Seq(Literal(a.name), a)))
    val (time, arrival) = (OrderStamp.time(order), OrderStamp.arrival(order))
    project(rows, keys, Seq(Literal(null, row), value, Literal(EnrichLayout.TableValue), time, arrival,
      Literal(1), sideOutput))
  }

  private def project(rows: LogicalPlan, keys: Seq[Attribute], columns: Seq[Expression]): LogicalPlan =
    Project(keys ++ EnrichLayout.Columns.zip(columns).map { case (name, e) => Alias(e, name)() }, rows)
}

/** The stream's rows that ask for a table's row as of their event time: key, row, time, side output. */
case class EnrichRequestLayout(keys: Seq[Attribute], row: Attribute, time: Attribute, sideOutput: Attribute) {
  def rowType: StructType = row.dataType.asInstanceOf[StructType]
}

object EnrichRequestLayout {
  /** The layout of a plan; `keys`: how many of its columns are the key, which comes first. */
  def of(plan: LogicalPlan, keys: Int): EnrichRequestLayout = {
    val (key, Seq(row, time, sideOutput)) = plan.output.splitAt(keys)
    EnrichRequestLayout(key, row, time, sideOutput)
  }
}
