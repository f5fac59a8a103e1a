package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.ChangeEmitter
import org.apache.spark.unsafe.types.UTF8String

/**
 * The changes of a pattern's table: a match is a row by the key and the match's id, until its TTL expires.
 * `sideOutputRow` makes a row of the table's output of a side output.
 */
private[pattern] class MatchEmitter(
    fold: AggregateFold,
    settings: PatternSettings,
    sideOutputs: SideOutputSettings,
    live: ChangeEmitter,
    sideOutputRow: InternalRow => InternalRow) {
  import settings.{conditions, matching}

  private val shown = ShownMatchLayout(fold.seen)
  private val matchColumns =
    new MatchColumns(conditions, matching.automaton, fold.result.flatMap(_.references).map(_.exprId).toSet)

  /** For a match whose columns can't be computed: its key, and the stored columns of its last row. */
  private lazy val rejectedMatches = {
    val keyColumns = fold.keys.init
    val rest = conditions.stored.filterNot(a => keyColumns.exists(_.exprId == a.exprId))
    new SideOutputBuilder(keyColumns ++ rest, keyColumns ++ conditions.row, sideOutputs)
  }

  /** Adds the row of a match to `out` and, if matches have a TTL, the match to those that are shown. */
  def show(
      key: InternalRow,
      m: Match,
      matched: MatchedRows,
      out: ArrayBuffer[InternalRow],
      shownMatches: ArrayBuffer[InternalRow]): Unit = {
    val id = UTF8String.fromString(matched.id(m.lastNode))
    val keyAndId = new JoinedRow(key, InternalRow(id))
    val columns = new JoinedRow(InternalRow(matched.times(m.startRow), m.endTime, m.timedOut),
      matchColumns(matched, m.lastNode))
    try {
      out += live.upsert(keyAndId, columns, null).copy()
      settings.ttl.foreach { ttl =>
        shownMatches += shown(id, m.endTime + ttl, live.before(keyAndId, columns))
      }
    } catch { case e: RowError =>
      val last = matched.rows(matched.row(m.lastNode))
      out += sideOutputRow(rejectedMatches.rejected(new JoinedRow(key, last), e))
    }
  }

  /** Deletes the row of a match that has been shown. */
  def delete(key: InternalRow, shownMatch: InternalRow): InternalRow = {
    val keyAndId = new JoinedRow(key, InternalRow(shown.id(shownMatch)))
    live.delete(keyAndId, shown.row(shownMatch)).copy()
  }
}
