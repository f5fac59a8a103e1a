package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.{ColumnScope, RefusedException}
import org.apache.spark.sql.keyfold.migration.{MigratedStates, StoredStates}
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.spark.state_store.{SparkStateWriter, StoredFamilies}
import org.apache.spark.sql.keyfold.window.{KeptWindowLayout, WindowProcessor}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

/**
 * Takes a table's state over from an old definition: each field of the new state is copied from a field of
 * the old one, or computed from several; the others begin as they do for a new key.
 */
class StateMigration(
    spark: SparkSession, plan: TablePlan, keys: Seq[Attribute], ttlMs: Option[Long], oldState: String) {
  private val fold = plan.processor.fold
  private val old = StoredStates(DataType.fromJson(oldState).asInstanceOf[StructType])
  private val oldFields = DataTypeUtils.toAttributes(old.schema)
  private val sources = Array.fill[Option[Expression]](fold.state.length)(None)

  private def oldField(name: String): Attribute =
    oldFields.find(_.name.equalsIgnoreCase(name)).getOrElse(throw new RefusedException(s"no field $name"))

  private def at(field: String): Int = fold.state.indexWhere(_.name.equalsIgnoreCase(field))

  /** A field of the new state is one of the old, perhaps in a wider type. */
  def copyField(field: String, from: String): Unit = {
    val (i, source) = (at(field), oldField(from))
    val wanted = fold.state(i).dataType
    if (!Widening.fits(source.dataType, wanted)) throw new RefusedException(
      s"$field is ${wanted.sql}, and $from is ${source.dataType.sql}, which it can't hold")
    sources(i) = Some(if (source.dataType == wanted) source else Cast(source, wanted))
  }

  /** A field is computed from a struct `state`, whose fields `names` are the old state's fields `from`. */
  def computeField(
      field: String,
      column: Column,
      names: java.util.List[String],
      from: java.util.List[String]): Unit = {
    val parts = names.asScala.toSeq.zip(from.asScala.toSeq.map(oldField))
    val struct = CreateNamedStruct(parts.flatMap { case (name, a) => Seq(Literal(name), a) })
    val scope = ColumnScope(
      spark, oldFields, Seq(AttributeReference("state", struct.dataType)()), Seq(struct), None)
    val e = scope.select(Seq(column.as("value"))).exprs.head
    val wanted = fold.state(at(field)).dataType
    if (!DataType.equalsIgnoreNullability(e.dataType, wanted)) throw new RefusedException(
      s"it gives ${e.dataType.sql}, and the field is ${wanted.sql}; cast one of them")
    sources(at(field)) = Some(e)
  }

  private def keep: Option[Long] = plan.processor match {
    case w: WindowProcessor => w.keepMicros
    case _ => None
  }

  private val keySchema = StructType(keys.map(k => StructField(k.name, k.dataType)))

  private def families: StoredFamilies = StoredFamilies(
    keySchema, plan.processor.stateSchema, keep.map(_ => KeptWindowLayout(fold.schema).schema), plan.timeMode)

  /**
   * What the new state stores, as rows for `write`. `states` has the new key, and of a state its value, or of
   * a kept window its tick and the window; equal keys are side by side, and are merged.
   */
  def rows(states: DataFrame): DataFrame = {
    KernelStrategy.install(spark)
    val step = MigratedStates(families, fold, sources.toSeq, oldFields, old, ttlMs, keep)
    val stored = DataTypeUtils.toAttributes(families.rowSchema)
    SparkDatasets.frame(spark, PartitionStepNode(step, stored, SparkDatasets.plan(states)))
  }

  /**
   * Writes the state of a batch into a checkpoint that has none, in as many partitions as `rows` has. Returns
   * the ids of what was written, by partition.
   */
  def write(rows: DataFrame, checkpoint: String, batch: Long): Array[String] =
    new SparkStateWriter(spark, checkpoint, batch, families).write(rows)
}

/** Which types hold all values of another; in Python `widens` of engine/state/mapping.py, equal by a test. */
object Widening {
  def fits(from: DataType, to: DataType): Boolean = (from, to) match {
    case (a, b) if DataType.equalsIgnoreNullability(a, b) => true
    case (LongType, FloatType | DoubleType) | (IntegerType, FloatType) => false
    case (_: DecimalType, _: IntegralType) => false
    case (a: NumericType, b: NumericType) => Cast.canUpCast(a, b)
    case _ => false
  }
}
