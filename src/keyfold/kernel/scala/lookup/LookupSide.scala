package org.apache.spark.sql.execution.keyfold.lookup

import java.util.{HashMap => JavaMap, LinkedHashSet}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution.keyfold.spark.memory.SparkHashedRelation
import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.types._

/**
 * A lookup's rows by one set of key columns: the one row that each key has, and examples of keys that have
 * several. A row with a null in its key matches nothing and is left out.
 */
case class LookupSide(repeated: Seq[String], chosen: Seq[UnsafeRow], relation: SparkHashedRelation)

object LookupSide {
  /** Keys are compared by their bytes, so equal values such as 0.0 and -0.0 must have equal bytes. */
  def key(positions: Seq[Int], types: Seq[DataType]): Seq[Expression] = positions.zip(types).map {
    case (i, dataType) => NormalizeFloatingNumbers.normalize(BoundReference(i, dataType, nullable = true))
  }

  def requireComparable(column: Attribute): Unit = {
    val (name, dataType) = (column.name, column.dataType)
    if (dataType.existsRecursively(_.isInstanceOf[MapType])) {
      throw new RefusedException(s"$name is a map, and maps have no equality to look up by")
    }
    if (!UnsafeRowUtils.isBinaryStable(dataType)) throw new RefusedException(
      s"$name has a collation (${dataType.sql}), under which equal strings may differ in their bytes; " +
      s"look up by a string without one, such as lower($name)")
  }

  /** `duplicates`: which row of a key that has several is chosen, "first" or "last"; or "error". */
  def apply(schema: StructType, on: Seq[String], rows: Array[UnsafeRow], duplicates: String): LookupSide = {
    val positions = on.map(k => schema.fields.indexWhere(_.name.equalsIgnoreCase(k)))
    val keyColumns = key(positions, positions.map(schema.fields(_).dataType))
    val keyOf = UnsafeProjection.create(keyColumns)
    val chosen = new JavaMap[UnsafeRow, UnsafeRow]()
    val repeated = new LinkedHashSet[UnsafeRow]()
    rows.foreach { row =>
      val key = keyOf(row)
      if (!key.anyNull) {
        if (!chosen.containsKey(key)) chosen.put(key.copy(), row)
        else if (duplicates == "last") chosen.put(key, row)
        else if (duplicates == "error" && repeated.size < LookupTable.RepeatedShown) repeated.add(key.copy())
      }
    }
    val (kept, keyText) = (chosen.values.asScala.toSeq, text(on, keyColumns)(_))
    LookupSide(repeated.asScala.toSeq.map(keyText), kept, SparkHashedRelation(kept, keyColumns))
  }

  /** A key as an error shows it: `region north, day 2026-01-01`. */
  private def text(names: Seq[String], columns: Seq[Expression])(key: UnsafeRow): String =
    names.indices.map { i =>
      val column = BoundReference(i, columns(i).dataType, nullable = true)
      s"${names(i)} ${ToPrettyString(column, Some("UTC")).eval(key)}"
    }.mkString(", ")
}
