package org.apache.spark.sql.execution.keyfold.lookup

import java.util.{List => JavaList, Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.keyfold.spark.memory.SparkHashedRelation
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.types._

/**
 * The rows of a lookup as they were read: how many, whether none of them has a key, and examples of keys with
 * several rows. `sides` has them by the columns that tables look up by.
 */
class LoadedLookup(
    val rows: Long,
    val unkeyed: Boolean,
    val repeated: Array[String],
    private[keyfold] val sides: Map[Seq[String], SparkHashedRelation],
    private[keyfold] val digest: LookupDigest)

/** Equal for equal rows, whatever their order. */
case class LookupDigest(rows: Long, sum: Long, otherSum: Long)

/**
 * A lookup on the driver: its newest rows, by the columns that tables look up by. Plans refer to this
 * object and not to the rows, so that a batch which begins after a reload sees the new ones.
 */
class LookupTable {
  @volatile private var newest: Map[Seq[String], Broadcast[SparkHashedRelation]] = Map.empty
  private var digest: Option[LookupDigest] = None

  /**
   * Reads all rows. `ons`: the columns that tables look up by; `keep`: which of several rows of a key is
   * used, "first" or "last", or "error" if that is a mistake.
   */
  def read(df: DataFrame, ons: JavaList[JavaList[String]], duplicates: String): LoadedLookup = {
    val rows = SparkDatasets.collect(df)
    val columns = ons.asScala.map(_.asScala.toSeq).toSeq
    val sides = columns.map(on => on -> LookupSide(df.schema, on, rows, duplicates))
    val chosen = sides.map(_._2.chosen)
    new LoadedLookup(
      rows = rows.length,
      unkeyed = rows.nonEmpty && chosen.exists(_.isEmpty),
      repeated = sides.flatMap(_._2.repeated).distinct.take(LookupTable.RepeatedShown).toArray,
      sides = sides.map { case (on, side) => on -> side.relation }.toMap,
      digest = LookupTable.digest(chosen.flatten))
  }

  /** Publishes what was read to the tables; whether it differs from what they had. */
  def take(df: DataFrame, read: LoadedLookup): Boolean = synchronized {
    if (digest.contains(read.digest)) return false
    val before = newest
    newest = read.sides.map { case (on, relation) => on -> relation.broadcast(df.sparkSession) }
    digest = Some(read.digest)
    // A running batch may still read the old rows: its executors then fetch them again, and the driver frees
    // them when nothing refers to them any more.
    before.values.foreach(_.unpersist(blocking = false))
    true
  }

  /** The rows that a batch which starts now looks up. */
  def current(on: Seq[String]): Broadcast[SparkHashedRelation] = newest(on)

  /**
   * Joins each row with the lookup's row of the same key. `schema`: the lookup's columns, as JSON; `on`:
   * columns of both; `names`: the names that the lookup's other columns get.
   */
  def join(
      df: DataFrame,
      schema: String,
      on: JavaList[String],
      names: JavaMap[String, String],
      inner: Boolean): DataFrame = {
    val (spark, plan) = (SparkDatasets.session(df), SparkDatasets.plan(df))
    KernelStrategy.install(spark)
    val lookup = DataType.fromJson(schema).asInstanceOf[StructType]
    val layout = {
      val added = lookup.indices.filter(i => names.containsKey(lookup(i).name))
      LookupLayout(plan.output, on.asScala.toSeq, lookup, added)
    }
    layout.keys.foreach(LookupSide.requireComparable)
    val output = layout.output(field => names.get(field.name))
    SparkDatasets.frame(spark, PartitionStepNode(LookupJoin(this, layout, inner), output, plan))
  }
}

object LookupTable {
  /** How many keys with several rows an error names. */
  val RepeatedShown = 3

  private def digest(rows: Seq[UnsafeRow]): LookupDigest = {
    def hash(row: UnsafeRow, seed: Long) =
      XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, seed)
    LookupDigest(rows.length, rows.iterator.map(hash(_, 17L)).sum, rows.iterator.map(hash(_, 4711L)).sum)
  }
}
