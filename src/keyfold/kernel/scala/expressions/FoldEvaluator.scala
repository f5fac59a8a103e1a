package org.apache.spark.sql.keyfold.expressions

import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types.{DataType, NullType}

/**
 * A fold at work in one task: its expressions compiled, its buffers mutable. Not for two threads. Code is
 * generated when it is first needed: most tasks only update or only merge, and generating both takes longer
 * than a small batch.
 */
class FoldEvaluator(f: AggregateFold, prefix: Int) {
  def this(f: AggregateFold) = this(f, f.keys.length)
  private val width = f.state.length
  private val types: Array[DataType] = f.state.map(_.dataType).toArray
  private def bound[T <: Expression](e: T, to: Seq[Attribute]): T =
    BindReferences.bindReference(e, AttributeSeq(to))

  // Fixed-width fields are updated in place in one byte array; anything else needs objects.
  val flat: Boolean = f.flat
  private val updaters = f.coded.map { c =>
    bound(c.fn: ImperativeAggregate, f.in).withNewMutableAggBufferOffset(c.at)
  }.toArray
  private val mergers = f.coded.map { c =>
    c.fn.withNewMutableAggBufferOffset(c.at).withNewInputAggBufferOffset(prefix + c.at)
  }.toArray
  private lazy val filters = f.coded.map(c => c.filter.map(new UserPredicate(_, f.in)).orNull).toArray
  private val offsets = f.coded.map(_.at).toArray
  private val typed = updaters.zip(offsets).collect { case (t: TypedImperativeAggregate[_], at) => (t, at) }
  // What a coded function reads is evaluated before anything is folded, so that a row that throws leaves no
  // trace.
  private lazy val probe = new UserPredicate(EvaluateAll(f.coded.map { c =>
    val arguments = EvaluateAll(c.fn.children.map { case s: SortOrder => s.child; case e => e })
    c.filter.fold(arguments: Expression)(If(_, arguments, Literal(true)))
  }), f.in)

  private val zeroRow = UnsafeProjection.create(f.zero).apply(InternalRow.empty).copy()
  private lazy val updating = new UserExpression(f.update, f.state ++ f.in)
  private lazy val merging = f.merge.map { merge =>
    val columnsBefore = Seq.fill(prefix)(AttributeReference("before", NullType)())
    new UserExpression(merge, f.state ++ columnsBefore ++ f.right)
  }.orNull
  private val expressed = f.update.indices.filter(f.update(_) != NoOp).toArray
  private val joined = new JoinedRow
  private val inPlace = new StateAndRow

  /**
   * Spark's typed buffers go wrong when they are updated after they were stored: puts new ones in their
   * place and returns the old.
   */
  def renew(b: InternalRow): Array[Any] = typed.map { case (t, at) =>
    val old = b.get(at, types(at))
    b.update(at, t.createAggregationBuffer())
    old
  }

  /** Merges the buffers that `renew` put in into the old ones. */
  def settle(b: InternalRow, old: Array[Any]): Unit = typed.zip(old).foreach { case ((t, at), o) =>
    val any = t.asInstanceOf[TypedImperativeAggregate[Any]]
    b.update(at, try any.merge(o, b.get(at, types(at))) catch { case e: Throwable => throw RowError.of(e) })
  }

  def zero(): InternalRow = if (flat) zeroRow.copy() else {
    val b = generic(zeroRow.copy())
    updaters.foreach(_.initialize(b))
    b
  }

  def load(stored: InternalRow): InternalRow = if (flat) stored.copy() else {
    val b = generic(stored.copy())
    typed.foreach { case (t, at) => b.update(at, t.deserialize(stored.getBinary(at))) }
    b
  }

  private def generic(row: InternalRow): GenericInternalRow = {
    val b = new GenericInternalRow(width)
    var i = 0
    while (i < width) { b.update(i, row.get(i, types(i))); i += 1 }
    b
  }

  /** The buffer as it is stored or sent: typed buffers as bytes, on a copy. */
  def stored(b: InternalRow): InternalRow = if (typed.isEmpty) b else {
    val c = new GenericInternalRow(b.asInstanceOf[GenericInternalRow].values.clone())
    // Spark hands out the bytes it will write the next buffer into.
    typed.foreach { case (t, at) =>
      t.serializeAggregateBufferInPlace(c)
      c.update(at, Option(c.getBinary(at)).map(_.clone()).orNull)
    }
    c
  }

  def update(b: InternalRow, row: InternalRow): Unit = {
    if (flat) updating.into(b, inPlace.of(b.asInstanceOf[UnsafeRow], row))
    else if (updaters.length == 0) updating.into(b, joined(b, row))
    else {
      probe(row)
      codedFirst(b, updating(joined(b, row))) { i =>
        if (filters(i) == null || filters(i)(row)) updaters(i).update(b, row)
      }
    }
  }

  /** A stored state, or none, with one row more, as it is stored. */
  def plus(old: InternalRow, row: InternalRow): InternalRow = {
    val b = if (old == null) zero() else load(old)
    val typed = renew(b)
    update(b, row)
    settle(b, typed)
    stored(b)
  }

  /**
   * Expressions are computed aside, then coded functions run, then the results are put in: where the first
   * function throws, nothing has changed and the row can be rejected. A later one leaves a buffer half
   * changed: that must stop the task.
   */
  private def codedFirst(b: InternalRow, computed: InternalRow)(act: Int => Unit): Unit = {
    var i = 0
    while (i < updaters.length) {
      try act(i) catch {
        case NonFatal(e) if i > 0 =>
          throw SparkException.internalError(s"an aggregate failed: ${RowError.reason(e)}", e)
        case e: Throwable => throw RowError.of(e)
      }
      i += 1
    }
    expressed.foreach(at => b.update(at, computed.get(at, types(at))))
  }

  /** Folds another state in: `row` has `prefix` columns, then the state's. */
  def merge(b: InternalRow, row: InternalRow): Unit = {
    if (flat) merging.into(b, inPlace.of(b.asInstanceOf[UnsafeRow], row))
    else if (mergers.length == 0) merging.into(b, joined(b, row))
    else codedFirst(b, merging(joined(b, row)))(i => mergers(i).merge(b, row))
  }

  /** The results of the imperative functions, each at its place in `results`. */
  def evaluate(b: InternalRow, results: InternalRow): Unit = {
    var i = 0
    try while (i < updaters.length) { results.update(i, updaters(i).eval(b)); i += 1 }
    catch { case e: Throwable => throw RowError.of(e) }
  }

  /** A state as it is stored, to be read and not changed. */
  def read(stored: InternalRow): InternalRow = if (flat) stored else load(stored)
}
