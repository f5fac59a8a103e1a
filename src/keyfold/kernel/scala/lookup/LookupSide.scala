package org.apache.spark.sql.execution.keyfold.lookup

import java.util.{HashMap => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution.joins.HashedRelation
import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.types._

/** Rows of a lookup by their key; rows without one match nothing and are left out. */
case class LookupSide(repeated: Seq[String], chosen: Seq[UnsafeRow], relation: HashedRelation)

object LookupSide {
  /** What is equal must be spelt alike, as 0.0 and -0.0. */
  def key(positions: Seq[Int], types: Seq[DataType]): Seq[Expression] =
    positions.zip(types).map { case (p, t) => NormalizeFloatingNumbers.normalize(BoundReference(p, t, nullable = true)) }

  def comparable(a: Attribute): Unit = {
    if (a.dataType.existsRecursively(_.isInstanceOf[MapType])) throw new RefusedException(s"${a.name} is a map, and maps have no equality to look up by")
    if (!UnsafeRowUtils.isBinaryStable(a.dataType)) throw new RefusedException(s"${a.name} has a collation (${a.dataType.sql}), under which equal texts have other bytes; look up by another plain text, as in lower(${a.name})")
  }

  def apply(schema: StructType, on: Seq[String], rows: Array[UnsafeRow], keep: String): LookupSide = {
    val positions = on.map(k => schema.fields.indexWhere(_.name.equalsIgnoreCase(k)))
    val exprs = key(positions, positions.map(schema.fields(_).dataType))
    val project = UnsafeProjection.create(exprs)
    val at = new JavaMap[UnsafeRow, Integer]()
    val repeated = new java.util.LinkedHashSet[UnsafeRow]()
    rows.indices.foreach { i =>
      val k = project(rows(i))
      if (!k.anyNull) {
        val known = at.get(k)
        if (known == null) at.put(k.copy(), i) else {
          if (keep == "error" && repeated.size < LookupTable.Named) repeated.add(k.copy())
          if (keep == "last") at.put(k.copy(), i)
        }
      }
    }
    val chosen = at.values.asScala.map(i => rows(i)).toSeq
    LookupSide(repeated.asScala.toSeq.map(spelt(on, exprs, _)), chosen, HashedRelation(chosen.iterator, exprs, math.max(chosen.length, 1)))
  }

  private def spelt(on: Seq[String], exprs: Seq[Expression], key: UnsafeRow): String = on.zip(exprs).zipWithIndex.map { case ((name, e), i) =>
    s"$name ${ToPrettyString(BoundReference(i, e.dataType, nullable = true), Some("UTC")).eval(key)}"
  }.mkString(", ")
}
