package org.apache.spark.sql.keyfold

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.{SparkException, SparkThrowable}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.unsafe.types.UTF8String

/** Writes down why a row was set aside and what it was. */
class Rejects(struct: Expression, input: Seq[Attribute], keep: Boolean, zone: String, stream: Option[String]) {
  def this(columns: Seq[Attribute], input: Seq[Attribute], keep: Boolean, zone: String, stream: Option[String]) =
    this(CreateNamedStruct(columns.flatMap(c => Seq(Literal(c.name), c))), input, keep, zone, stream)

  private lazy val asJson = UnsafeProjection.create(Seq(StructsToJson(Map("ignoreNullFields" -> "false"), struct, Some(zone)).replacement), input)

  def text(row: InternalRow): String = asJson(row).getString(0)

  def of(row: InternalRow, error: Throwable): UTF8String = of(Rejects.reason(error), text(row))

  def of(reason: String, raw: String): UTF8String = {
    // One of Spark's own: a driver may not have the kernel's classes where it reads a task's failure.
    if (!keep) throw new SparkException(s"[KEYFOLD_BAD_ROW] $reason; row: $raw")
    val node = Rejects.mapper.createObjectNode().put("reason", reason).put("raw", raw)
    stream.foreach(node.put("stream", _))
    UTF8String.fromString(node.toString)
  }
}

object Rejects {
  private val mapper = new ObjectMapper()

  /** Spark's words for an error without its advice about settings, and the user's expression it arose in. */
  def reason(error: Throwable): String = {
    val words = Option(error.getMessage).getOrElse(error.getClass.getSimpleName)
    val short = words.linesIterator.next().replaceAll(" SQLSTATE: \\w+$", "").replaceAll(" (If necessary|Use .?try_|To return NULL).*$", "")
    val where = error match {
      case t: SparkThrowable => t.getQueryContext.map(_.fragment()).filter(_ != null).filter(_.nonEmpty).headOption
      case _ => None
    }
    where.fold(short)(w => s"$short in: $w")
  }

  /** Errors of a row; anything else (memory, threads, a broken store) must stop the task. */
  def isRowError(e: Throwable): Boolean = e match {
    case _: Error => false
    case _: ArithmeticException | _: NumberFormatException | _: java.time.DateTimeException => true
    case t: SparkThrowable => t.getCondition != null && !t.getCondition.startsWith("INTERNAL_ERROR")
    case _: IllegalArgumentException | _: ArrayIndexOutOfBoundsException | _: ClassCastException | _: NullPointerException => true
    case _ => false
  }
}
