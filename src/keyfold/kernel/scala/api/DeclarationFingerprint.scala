package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.keyfold.expressions.{AfterInitialRows, EvaluateAll, Fingerprint, ValidKey}
import org.apache.spark.sql.keyfold.state.TopN

/**
 * What a declaration means, part by part, however it is spelt: a running table is compared with its state on
 * disk by these. Without a table, the meaning of the stream's columns.
 */
class DeclarationFingerprint(declared: Declaration) {
  import declared._
  private val fingerprint = new Fingerprint(scope)

  def parts: Seq[(String, String)] = wheres ++ (if (isTable) table else streamColumns)

  private def isTable = keys.nonEmpty && (columns.nonEmpty || topN.isDefined || pattern.isDefined)

  /** Without keyfold's own conditions. */
  private def wheres = conditions.filter {
    case _: EvaluateAll | _: ValidKey | _: AfterInitialRows => false
    case _ => true
  }.zipWithIndex.map { case (condition, i) => s"where:$i" -> fingerprint(condition) }

  private def streamColumns = scope.seen.map(a => s"column:${a.name}" -> fingerprint(scope.inSource(a)))

  private def table: Seq[(String, String)] =
    keyColumns.map(k => s"key:${k.name}" -> fingerprint(scope.inSource(k))) ++
      columns.map(c => s"column:${c.name}" -> c.fingerprint(fingerprint, keys)) ++
      rowColumns.map { case (name, e) => s"column:$name" -> fingerprint(e) } ++
      topN.map(t => "top" -> order(t)) ++
      window.flatMap(_.gapExpression).map(gap => "gap" -> fingerprint(gap)) ++
      pattern.toSeq.flatMap(_.meaning(fingerprint)) ++
      columnsRead.map(a => s"reads:${a.name}" -> a.dataType.sql) ++
      stateOrder

  private def rowColumns = if (topN.isDefined) shownColumns else Nil

  private def order(t: TopN): String = if (t.orders.isEmpty) "newest" else {
    val by = t.orders.map(o => s"${fingerprint(o.child)} ${o.direction.sql} ${o.nullOrdering.sql}")
    s"${t.n} by ${by.mkString(", ")}"
  }

  /** State is laid out in the order of declaration. A pattern has its columns among its own parts. */
  private def stateOrder: Seq[(String, String)] = {
    val names = columns.map(_.name) ++ rowColumns.map(_._1)
    Seq("keys" -> keys.mkString(", ")) ++ Option.when(pattern.isEmpty)("columns" -> names.mkString(", "))
  }
}
