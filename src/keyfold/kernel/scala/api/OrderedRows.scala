package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.admission.LatenessCheck
import org.apache.spark.sql.keyfold.rows.steps.KeyedRows

/**
 * A table's rows sent one by one, for a fold that must see them in order: `fold` reads them behind the
 * shuffle.
 */
case class OrderedRows(step: KeyedRows, layout: RowLayout, fold: AggregateFold)

object OrderedRows {
  def apply(
      declared: Declaration,
      fold: AggregateFold,
      source: Seq[Attribute],
      keys: Seq[Attribute],
      lateness: Option[LatenessCheck]): OrderedRows = {
    val scope = declared.scope
    // The source's own columns too: the event time, which TTL reads even where `select` left it out, and the
    // clock.
    val read = (scope.seen ++ scope.source).filter(fold.references.contains)
    val sent = read.map(a => AttributeReference(a.name, a.dataType)())
    val step = KeyedRows(
      declared.gate(source), declared.keyExpressions, read.map(scope.inSource), declared.time, lateness)
    val layout = RowLayout(keys, sent, RetractingColumns.None, step.added)
    val columns = AttributeMap(read.zip(sent))
    OrderedRows(step, layout, fold.reading(layout.shuffled.input)(_.transform {
      case a: AttributeReference if columns.contains(a) => columns(a)
    }))
  }
}
