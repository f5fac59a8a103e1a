package org.apache.spark.sql.keyfold.migration

import org.apache.spark.sql.keyfold.state.{ColumnPacking, StructPacking}
import org.apache.spark.sql.keyfold.window.WindowStateLayout
import org.apache.spark.sql.types._

/** The value that a table has stored for a key, by its schema: one state, or packed ones of windows. */
case class StoredStates(stored: StructType) {
  private val packed: Option[DataType] =
    if (stored.fieldNames.toSeq == Seq("due", "closed", "open")) Some(stored("open").dataType) else None

  /** The schema of one state. */
  val schema: StructType = packed match {
    case Some(ArrayType(element: StructType, _)) => element
    case Some(columns: StructType) => StructType(columns.map {
      case StructField(name, ArrayType(element, _), _, _) => StructField(name, element)
      case other => throw new IllegalStateException(s"no packed field: $other")
    })
    case _ => stored
  }

  /** How the states of windows are packed; None where a key has one state. */
  val windows: Option[WindowStateLayout] = packed.map {
    case _: ArrayType => WindowStateLayout(StructPacking(schema))
    case _ => WindowStateLayout(ColumnPacking(schema))
  }

  def width: Int = stored.length
}
