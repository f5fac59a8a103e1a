package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{
  AggregateFold, FoldEvaluator, InternalColumns, RowError, UserProjection
}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput

/**
 * A fold's evaluator that also builds the rows of a table's changelog: the operation, the key, the result
 * columns, the row before the change where the fold asks for it, and no side output.
 */
class ChangeEmitter(f: AggregateFold, prefix: Int) extends FoldEvaluator(f, prefix) {
  def this(f: AggregateFold) = this(f, f.keys.length)
  private val width = f.state.length + f.coded.length
  private val previous = AttributeReference(InternalColumns.Prev, f.seen)()
  private val previousColumn: Seq[Attribute] = if (f.previous) Seq(previous) else Nil
  private val input = f.keys ++ f.state ++ f.coded.map(_.result) :+ previous

  private def output(op: String, values: Seq[Expression]): UserProjection =
    new UserProjection((Literal(op) +: f.keys) ++ values ++ previousColumn :+ SideOutput.none, input)
  private lazy val upserts = output("upsert", f.result)
  private lazy val finals = output("final", f.result)
  private lazy val deletes = output("delete", f.result.map(r => Literal(null, r.dataType)))
  private val keyAndState = new JoinedRow
  private val whole = new JoinedRow
  /** The results of imperative functions, then the previous row. */
  private val results = new GenericInternalRow(f.coded.length + 1)

  def upsert(key: InternalRow, b: InternalRow, previous: InternalRow): UnsafeRow =
    change(upserts, key, b, previous)
  /** The last version of a window. */
  def last(key: InternalRow, b: InternalRow, previous: InternalRow): UnsafeRow =
    change(finals, key, b, previous)

  private def change(
      project: UserProjection, key: InternalRow, b: InternalRow, previous: InternalRow): UnsafeRow = {
    evaluate(b, results)
    results.update(f.coded.length, previous)
    project(whole(keyAndState(key, b), results))
  }

  private lazy val emptyState = new GenericInternalRow(width + 1)
  def delete(key: InternalRow, previous: InternalRow): UnsafeRow = {
    emptyState.update(width, previous)
    deletes(whole(key, emptyState))
  }

  private lazy val versions =
    Seq("upsert", "final").map(op => new UserProjection(Literal(op) +: f.result, input))
  /**
   * The row that readers have of a state; null where the fold does not ask for it, or there was none, or it
   * could not be computed.
   */
  def before(key: InternalRow, state: => InternalRow, closed: Boolean = false): InternalRow = {
    val b = if (f.previous) state else null
    if (b == null) null else try {
      evaluate(b, results)
      results.update(f.coded.length, null)
      versions(if (closed) 1 else 0)(whole(keyAndState(key, b), results)).copy()
    } catch { case _: RowError => null }
  }
}
