package org.apache.spark.sql.keyfold.expressions

import java.io.{IOException, UncheckedIOException}

import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.{SparkThrowable, TaskKilledException}

/**
 * An expression of the user's threw on a row: the row is rejected. Thrown where such an expression is
 * evaluated, and nowhere else: whatever a state store, a shuffle or the kernel itself throws stops the
 * query, with the rows unharmed.
 */
class RowError(val why: Throwable) extends RuntimeException(why)

object RowError {
  /** What an evaluation threw, as the row's fault; or as it is, where rows have no part in it. */
  def of(e: Throwable): Throwable = if (e.isInstanceOf[RowError] || !blamed(e)) e else new RowError(e)

  private def blamed(e: Throwable): Boolean = e match {
    // Memory, the stack, classes that are missing.
    case _: Error | _: IOException | _: UncheckedIOException => false
    case t: SparkThrowable if t.getCondition != null && t.getCondition.startsWith("INTERNAL_ERROR") => false
    // A function of the user's own that reads a file or asks a service.
    case t: SparkThrowable
        if t.getCondition == "FAILED_EXECUTE_UDF" && t.getCause.isInstanceOf[IOException] => false
    case _ => !Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(Deep).exists(ended)
  }
  private val Deep = 20

  /**
   * Spark's message for an error, without advice about settings, and the user's expression that it arose
   * in.
   */
  def reason(error: Throwable): String = error match {
    case r: RowError => text(r.why)
    case other => text(other)
  }

  private def text(error: Throwable): String = {
    val message = Option(error.getMessage).filter(_.nonEmpty).getOrElse(error.getClass.getSimpleName)
    val short = message.linesIterator.next()
      .replaceAll(" SQLSTATE: \\w+$", "").replaceAll(" (If necessary|Use .?try_|To return NULL).*$", "")
    val where = error match {
      case t: SparkThrowable =>
        t.getQueryContext.map(_.fragment()).filter(_ != null).filter(_.nonEmpty).headOption
      case _ => None
    }
    where.fold(short)(w => s"$short in: $w")
  }

  /** The task is on its way down, or another one that it needs. */
  private def ended(e: Throwable): Boolean = e match {
    case _: InterruptedException | _: TaskKilledException | _: FetchFailedException => true
    case _ => false
  }
}

/** Columns that the user has written. */
final class UserProjection(columns: Seq[Expression], input: Seq[Attribute]) {
  private val project = UnsafeProjection.create(columns, input)
  def apply(row: InternalRow): UnsafeRow =
    try project(row) catch { case e: Throwable => throw RowError.of(e) }
}

/** A condition that the user has written. */
final class UserPredicate(condition: Expression, input: Seq[Attribute], partition: Int = 0) {
  private val test = Predicate.create(BindReferences.bindReference(condition, AttributeSeq(input)))
  test.initialize(partition)
  def apply(row: InternalRow): Boolean =
    try test.eval(row) catch { case e: Throwable => throw RowError.of(e) }
}

/** Fields of a state that are computed as the user has said. */
final class UserExpression(fields: Seq[Expression], input: Seq[Attribute]) {
  private val compute = MutableProjection.create(fields, input)
  def apply(row: InternalRow): InternalRow =
    try compute(row) catch { case e: Throwable => throw RowError.of(e) }
  def into(state: InternalRow, row: InternalRow): Unit =
    try compute.target(state)(row) catch { case e: Throwable => throw RowError.of(e) }
}
