package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.expressions._

/** Which columns of matched rows an expression reads, directly or through the columns of the match. */
final class ReadColumns(row: Seq[Attribute], matchColumns: Seq[Attribute]) {
  private val ofMatch = AttributeSet(matchColumns)

  def apply(e: Expression): Set[Attribute] = indices(e).map(row(_))

  private def indices(e: Expression): Set[Int] = e match {
    case GetArrayStructFields(a, _, i, _, _) if isMatchColumn(a) => Set(i)
    case GetStructField(GetArrayItem(a, n, _), i, _) if isMatchColumn(a) => Set(i) ++ indices(n)
    case GetStructField(a, i, _) if isMatchColumn(a) => Set(i)
    case Size(a, _) if isMatchColumn(a) => Set.empty
    case a if isMatchColumn(a) => row.indices.toSet
    case a: Attribute => row.indices.filter(row(_).exprId == a.exprId).toSet
    case other => other.children.flatMap(indices).toSet
  }

  private def isMatchColumn(e: Expression): Boolean = e match {
    case a: Attribute => ofMatch.contains(a)
    case _ => false
  }
}
