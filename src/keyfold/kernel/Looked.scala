// In a room of Spark's own: what it makes of the small side of a join is known to its executors alone.
package org.apache.spark.sql.execution.keyfold

import java.util.{HashMap => JavaMap, List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.joins.HashedRelation
import org.apache.spark.sql.keyfold.{KernelStrategy, Names, Refused, RowWork, Through}
import org.apache.spark.sql.types._

/** The rows of a lookup as they were read, one per key, ready to be taken; `repeated` names keys that have several. */
class Read(val rows: Long, val unkeyed: Boolean, val repeated: Array[String], private[keyfold] val sides: Map[Seq[String], HashedRelation], private[keyfold] val digest: (Long, Long, Long))

/**
 * A lookup on the driver: its newest rows, by the columns they are looked up by. Tables hold this object and not the rows, so that a batch that begins after
 * a reload meets the new ones.
 */
class Reference {
  @volatile private var newest: Map[Seq[String], Broadcast[HashedRelation]] = Map.empty
  private var digest: Option[(Long, Long, Long)] = None

  /** Reads all rows; `ons` are the columns that tables look up by, `keep` says which of several rows of a key stays: first, last, or none if that is an error. */
  def read(df: DataFrame, ons: JavaList[JavaList[String]], keep: String): Read = {
    val frame = df.asInstanceOf[Dataset[Row]]
    val rows = SQLExecution.withNewExecutionId(frame.queryExecution)(frame.queryExecution.executedPlan.executeCollect()).map(_.asInstanceOf[UnsafeRow])
    val sides = ons.asScala.map(_.asScala.toSeq).map(on => on -> Side(frame.schema, on, rows, keep)).toSeq
    new Read(rows.length, rows.nonEmpty && sides.exists(_._2.chosen.isEmpty), sides.flatMap(_._2.repeated).distinct.take(Reference.Named).toArray,
      sides.map { case (on, s) => on -> s.relation }.toMap, Reference.digest(sides.flatMap(_._2.chosen)))
  }

  /** Makes what was read what tables see; whether that is something new. */
  def take(df: DataFrame, read: Read): Boolean = synchronized {
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
    positions.map(input(_)).foreach(Side.comparable)
    val theirs = DataType.fromJson(schema).asInstanceOf[StructType]
    val taken = theirs.fields.zipWithIndex.filter { case (f, _) => names.containsKey(f.name) }.toSeq
    val (own, hidden) = input.partition(a => !a.name.startsWith("_kf_"))
    def again(a: Attribute) = AttributeReference(a.name, a.dataType, nullable = true, a.metadata)()
    val output = own.map(again) ++ taken.map { case (f, _) => AttributeReference(names.get(f.name), f.dataType)() } ++ hidden.map(again)
    val spark = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    Dataset.ofRows(spark, Through(Looked(this, keys, input, positions, theirs, taken.map(_._2), inner), output, frame.logicalPlan))
  }
}

object Reference {
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

/** Rows of a lookup by their key; rows without one match nothing and are left out. */
case class Side(repeated: Seq[String], chosen: Seq[UnsafeRow], relation: HashedRelation)

object Side {
  /** What is equal must be spelt alike, as 0.0 and -0.0. */
  def key(positions: Seq[Int], types: Seq[DataType]): Seq[Expression] =
    positions.zip(types).map { case (p, t) => NormalizeFloatingNumbers.normalize(BoundReference(p, t, nullable = true)) }

  def comparable(a: Attribute): Unit = {
    if (a.dataType.existsRecursively(_.isInstanceOf[MapType])) throw new Refused(s"${a.name} is a map, and maps have no equality to look up by")
    if (!UnsafeRowUtils.isBinaryStable(a.dataType)) throw new Refused(s"${a.name} has a collation (${a.dataType.sql}), under which equal texts have other bytes; look up by another plain text, as in lower(${a.name})")
  }

  def apply(schema: StructType, on: Seq[String], rows: Array[UnsafeRow], keep: String): Side = {
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
          if (keep == "error" && repeated.size < Reference.Named) repeated.add(k.copy())
          if (keep == "last") at.put(k.copy(), i)
        }
      }
    }
    val chosen = at.values.asScala.map(i => rows(i)).toSeq
    Side(repeated.asScala.toSeq.map(spelt(on, exprs, _)), chosen, HashedRelation(chosen.iterator, exprs, math.max(chosen.length, 1)))
  }

  private def spelt(on: Seq[String], exprs: Seq[Expression], key: UnsafeRow): String = on.zip(exprs).zipWithIndex.map { case ((name, e), i) =>
    s"$name ${ToPrettyString(BoundReference(i, e.dataType, nullable = true), Some("UTC")).eval(key)}"
  }.mkString(", ")
}

/** Each row with what the lookup has for its key: the version that was newest when the batch began. */
case class Looked(@transient reference: Reference, on: Seq[String], input: Seq[Attribute], keys: Seq[Int], theirs: StructType, taken: Seq[Int], inner: Boolean, side: Broadcast[HashedRelation] = null) extends RowWork {
  override def at(watermark: Long): RowWork = copy(reference = null, side = reference.version(on))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val relation = side.value.asReadOnlyCopy()
    val key = UnsafeProjection.create(Side.key(keys, keys.map(input(_).dataType)))
    val bad = input.indexWhere(_.name == Names.Bad)
    val mine = input.zipWithIndex.map { case (a, i) => a -> BoundReference(i, a.dataType, nullable = true) }
    val (own, hidden) = mine.partition { case (a, _) => !a.name.startsWith("_kf_") }
    val found = taken.map(i => BoundReference(input.length + i, theirs(i).dataType, nullable = true))
    val project = UnsafeProjection.create(own.map(_._2) ++ found ++ hidden.map(_._2))
    val nothing = new GenericInternalRow(theirs.length)
    val joined = new JoinedRow
    rows.flatMap { row =>
      val aside = bad >= 0 && !row.isNullAt(bad)
      val match_ = if (aside) null else relation.getValue(key(row))
      if (match_ == null && inner && !aside) None else Some(project(joined(row, if (match_ == null) nothing else match_)))
    }
  }
}
