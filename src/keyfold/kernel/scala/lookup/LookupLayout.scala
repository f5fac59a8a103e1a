package org.apache.spark.sql.execution.keyfold.lookup

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * The columns of a lookup join. `input`: the stream's; `on`: those of them that make the key; `lookup`: the
 * lookup's columns; `added`: the positions of those that the join adds. Out come the stream's columns, the
 * added ones, then the internal columns, which stay last.
 */
case class LookupLayout(input: Seq[Attribute], on: Seq[String], lookup: StructType, added: Seq[Int]) {
  private val keyPositions = on.map(k => input.indexWhere(_.name.equalsIgnoreCase(k)))
  private def isInternal(a: Attribute): Boolean = a.name.startsWith(InternalColumns.Prefix)

  def keys: Seq[Attribute] = keyPositions.map(input(_))

  /** The lookup's key, computed from a row of the stream. */
  def key: Seq[Expression] = LookupSide.key(keyPositions, keys.map(_.dataType))

  /** The position of the side output, below zero if the stream has none. */
  val sideOutput: Int = input.indexWhere(_.name == InternalColumns.SideOutput)

  def output(name: StructField => String): Seq[Attribute] = {
    val columns = input.map(a => AttributeReference(a.name, a.dataType, nullable = true, a.metadata)())
    val (internal, users) = columns.partition(isInternal)
    users ++ added.map(i => AttributeReference(name(lookup(i)), lookup(i).dataType)()) ++ internal
  }

  /** The output, computed from a row of the stream followed by one of the lookup. */
  def projection: Seq[Expression] = {
    def column(i: Int, dataType: DataType) = BoundReference(i, dataType, nullable = true)
    val (internal, users) = input.indices.partition(i => isInternal(input(i)))
    users.map(i => column(i, input(i).dataType)) ++
      added.map(i => column(input.length + i, lookup(i).dataType)) ++
      internal.map(i => column(i, input(i).dataType))
  }
}
