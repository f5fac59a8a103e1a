package org.apache.spark.sql.keyfold.state

import java.math.BigInteger

import scala.collection.mutable

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, XxHash64}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets

/** How many rows a column family has, and the sum of their hashes, which does not depend on their order. */
case class FamilyDigest(family: String, rows: Long, checksum: BigInteger) {
  def +(other: FamilyDigest): FamilyDigest =
    copy(rows = rows + other.rows, checksum = checksum.add(other.checksum))
}

/**
 * The digest of a state, in the columns in which Spark reads all column families. Each task adds up its rows
 * and the driver adds up tasks: an aggregation in SQL gives the same, but a cold Spark takes a second of CPU
 * time for planning it and for its shuffle.
 */
object StateDigest {
  private val Hashed = Seq("column_family_name", "key_bytes", "value_bytes")

  def of(rows: DataFrame): Seq[FamilyDigest] = {
    val columns = Hashed.map { name =>
      val index = rows.schema.fieldIndex(name)
      BoundReference(index, rows.schema(index).dataType, nullable = true)
    }
    val (family, hash) = (columns.head.ordinal, new XxHash64(columns))
    val found = new Sums
    SparkDatasets.runJob[Seq[FamilyDigest]](rows, (_, some) => new Sums().addAll(some, family, hash),
      (_, some) => found.synchronized(some.foreach(found.add)))
    found.families
  }
}

private class Sums {
  private val sums = mutable.Map.empty[String, FamilyDigest]

  def add(one: FamilyDigest): Unit = sums(one.family) = sums.get(one.family).fold(one)(_ + one)

  def addAll(rows: Iterator[InternalRow], family: Int, hash: XxHash64): Seq[FamilyDigest] = {
    rows.foreach { row =>
      val checksum = BigInteger.valueOf(hash.eval(row).asInstanceOf[Long])
      add(FamilyDigest(row.getUTF8String(family).toString, 1, checksum))
    }
    families
  }

  def families: Seq[FamilyDigest] = sums.values.toSeq
}
