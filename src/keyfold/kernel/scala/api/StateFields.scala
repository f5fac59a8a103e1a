package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.keyfold.state.RunningAggregateProcessor
import org.apache.spark.sql.keyfold.window.{SessionWindowProcessor, TimeWindowProcessor}

/**
 * How a table keeps its state: one state per key ("running"), packed states of a key's open windows ("panes",
 * "sessions"), or something else, whose fields are not listed. A field has its name, what it is of, and its
 * type.
 */
class StateFields(plan: TablePlan) {
  private val fold = plan.processor.fold

  val kind: String = plan.processor match {
    case _: RunningAggregateProcessor => "running"
    case _: TimeWindowProcessor => "panes"
    case _: SessionWindowProcessor => "sessions"
    case _ => "other"
  }

  /** The fields that each column is computed from. */
  private def columns: java.util.Map[String, java.util.List[String]] = {
    val found = new java.util.LinkedHashMap[String, java.util.List[String]]()
    fold.result.foreach { column =>
      val read = column.references
      val coded = fold.coded.filter(c => read.contains(c.result)).flatMap { c =>
        fold.state.slice(c.at, c.at + c.fn.aggBufferAttributes.length)
      }
      found.put(column.name, (fold.state.filter(read.contains) ++ coded).map(_.name).asJava)
    }
    found
  }

  def json: String = {
    val fields = if (kind == "other") Nil else fold.state.zip(fold.fieldOrigins).map { case (field, origin) =>
      Map("name" -> field.name, "of" -> origin, "type" -> field.dataType.sql).asJava
    }
    val keys = plan.groupBy.map(k => Map("name" -> k.name, "type" -> k.dataType.sql).asJava)
    val found = new java.util.LinkedHashMap[String, Any]()
    found.put("kind", kind)
    found.put("merges", fold.merge.isDefined)
    found.put("keys", keys.asJava)
    found.put("fields", fields.asJava)
    found.put("columns", columns)
    KernelJson.mapper.writeValueAsString(found)
  }
}
