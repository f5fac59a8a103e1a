package org.apache.spark.sql.execution.keyfold.lookup

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.joins.HashedRelation
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}

/** The rows of a lookup as they were read, one per key, ready to be taken; `repeated` names keys that have several. */
class LoadedLookup(val rows: Long, val unkeyed: Boolean, val repeated: Array[String], private[keyfold] val sides: Map[Seq[String], HashedRelation], private[keyfold] val digest: (Long, Long, Long))

/**
 * A lookup on the driver: its newest rows, by the columns they are looked up by. Tables hold this object and not the rows, so that a batch that begins after
 * a reload meets the new ones.
 */
class LookupTable {
  @volatile private var newest: Map[Seq[String], Broadcast[HashedRelation]] = Map.empty
  private var digest: Option[(Long, Long, Long)] = None

  /** Reads all rows; `ons` are the columns that tables look up by, `keep` says which of several rows of a key stays: first, last, or none if that is an error. */
  def read(df: DataFrame, ons: JavaList[JavaList[String]], keep: String): LoadedLookup = {
    val frame = df.asInstanceOf[Dataset[Row]]
    val rows = SQLExecution.withNewExecutionId(frame.queryExecution)(frame.queryExecution.executedPlan.executeCollect()).map(_.asInstanceOf[UnsafeRow])
    val sides = ons.asScala.map(_.asScala.toSeq).map(on => on -> LookupSide(frame.schema, on, rows, keep)).toSeq
    new LoadedLookup(rows.length, rows.nonEmpty && sides.exists(_._2.chosen.isEmpty), sides.flatMap(_._2.repeated).distinct.take(LookupTable.Named).toArray,
      sides.map { case (on, s) => on -> s.relation }.toMap, LookupTable.digest(sides.flatMap(_._2.chosen)))
  }

  /** Makes what was read what tables see; whether that is something new. */
  def take(df: DataFrame, read: LoadedLookup): Boolean = synchronized {
    if (digest.contains(read.digest)) return false
    val context = df.sparkSession.asInstanceOf[SparkSession].sparkContext
    val before = newest
    newest = read.sides.map { case (on, r) => on -> context.broadcast(r) }
    digest = Some(read.digest)
    // A batch under way may still read it: executors fetch it again then, and the driver lets go of it when nobody holds it any more.
    before.values.foreach(_.unpersist(blocking = false))
    true
  }

  def version(on: Seq[String]): Broadcast[HashedRelation] = newest(on)

  /** Rows with the row that the lookup has for them: `on` are columns of both, `names` what its other columns are called here. */
  def looked(df: DataFrame, schema: String, on: JavaList[String], names: java.util.Map[String, String], inner: Boolean): DataFrame = {
    val frame = df.asInstanceOf[Dataset[Row]]
    val (input, keys) = (frame.logicalPlan.output, on.asScala.toSeq)
    val positions = keys.map(k => input.indexWhere(_.name.equalsIgnoreCase(k)))
    positions.map(input(_)).foreach(LookupSide.comparable)
    val theirs = DataType.fromJson(schema).asInstanceOf[StructType]
    val taken = theirs.fields.zipWithIndex.filter { case (f, _) => names.containsKey(f.name) }.toSeq
    val (own, hidden) = input.partition(a => !a.name.startsWith("_kf_"))
    def again(a: Attribute) = AttributeReference(a.name, a.dataType, nullable = true, a.metadata)()
    val output = own.map(again) ++ taken.map { case (f, _) => AttributeReference(names.get(f.name), f.dataType)() } ++ hidden.map(again)
    val spark = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    Dataset.ofRows(spark, PartitionStepNode(LookupJoin(this, keys, input, positions, theirs, taken.map(_._2), inner), output, frame.logicalPlan))
  }
}

object LookupTable {
  /** An error names so many keys that have several rows. */
  val Named = 3

  /** Equal for equal rows in any order. */
  def digest(rows: Seq[UnsafeRow]): (Long, Long, Long) = {
    var (a, b) = (0L, 0L)
    rows.foreach { r =>
      a += XXH64.hashUnsafeBytes(r.getBaseObject, r.getBaseOffset, r.getSizeInBytes, 17L)
      b += XXH64.hashUnsafeBytes(r.getBaseObject, r.getBaseOffset, r.getSizeInBytes, 4711L)
    }
    (rows.length, a, b)
  }
}
