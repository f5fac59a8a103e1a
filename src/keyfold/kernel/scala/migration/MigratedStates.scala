package org.apache.spark.sql.keyfold.migration

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, FoldEvaluator, InternalColumns}
import org.apache.spark.sql.keyfold.expressions.{KernelError, RowError}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.spark.state_store.{StoredFamilies, StoredRows}
import org.apache.spark.sql.keyfold.state.{StatePacking, TimerTicks}
import org.apache.spark.sql.keyfold.window.{KeptWindowLayout, WindowState, WindowStateLayout}

/** A row of the old state: the new key, and a state's value, or the tick of a kept window and the window. */
case class OldStateLayout(keyWidth: Int, valueWidth: Int) {
  def key(row: InternalRow): InternalRow = row.getStruct(0, keyWidth)
  def isState(row: InternalRow): Boolean = !row.isNullAt(1)
  def value(row: InternalRow): InternalRow = row.getStruct(1, valueWidth)
  def tick(row: InternalRow): Long = row.getLong(2)
  def kept(row: InternalRow): InternalRow = row.getStruct(3, 3)
}

/**
 * Turns the states of an old definition into what the state store has under the new one. Timers follow from
 * states and are recreated.
 */
case class MigratedStates(
    families: StoredFamilies,
    fold: AggregateFold,
    sources: Seq[Option[Expression]],
    oldFields: Seq[Attribute],
    old: StoredStates,
    ttlMs: Option[Long],
    keepMicros: Option[Long]) extends PartitionStep {
  val rows: OldStateLayout = OldStateLayout(families.key.length, old.width)

  def apply(partition: Int, found: Iterator[InternalRow]): Iterator[InternalRow] = {
    val work = new StateMigrationTask(this)
    val ahead = found.buffered
    Iterator.continually(ahead).takeWhile(_.hasNext).flatMap { _ =>
      val key = rows.key(ahead.head).copy()
      val group = new ArrayBuffer[InternalRow](1)
      while (ahead.hasNext && rows.key(ahead.head) == key) group += ahead.next().copy()
      work.migrated(key, group)
    }
  }
}

/** The migration at work in one task. */
private class StateMigrationTask(m: MigratedStates) {
  import m.{families, fold, old}
  private val live = new FoldEvaluator(fold, 0)
  private val zero = live.stored(live.zero())
  private val types = fold.state.map(_.dataType).toArray
  private val sources =
    m.sources.map(_.map(BindReferences.bindReference(_, AttributeSeq(m.oldFields)))).toArray
  private val stored = new StoredRows(families)
  private lazy val layout = WindowStateLayout(StatePacking.of(fold))
  private lazy val (oldKept, newKept) = (KeptWindowLayout(old.schema), KeptWindowLayout(fold.schema))
  private val startAt = fold.state.indexWhere(_.name == InternalColumns.Start)
  private val seenAt = fold.state.indexWhere(_.name == InternalColumns.Seen)
  private val stateCopy = UnsafeProjection.create(fold.schema)

  /** All that the state store has of a key. */
  def migrated(key: InternalRow, group: ArrayBuffer[InternalRow]): Iterator[InternalRow] = try {
    val (states, kept) = group.partition(m.rows.isState)
    val values = states.map(m.rows.value)
    val ofStates =
      if (values.isEmpty) Nil else old.windows.fold(running(key, values))(windows(key, values, _))
    (ofStates ++ kept.flatMap(keptWindow(key, _))).iterator
  } catch {
    case e: RowError => throw failed(keyText(key), RowError.reason(e))
  }

  private def failed(key: String, reason: String) =
    KernelError(KernelError.FailedMigration, s"key $key: $reason", Map("key" -> key, "reason" -> reason))

  private def keyText(key: InternalRow): String = families.key.fields.zipWithIndex.map { case (f, i) =>
    s"${f.name}=${key.get(i, f.dataType)}"
  }.mkString(", ")

  /** One state under the new definition. */
  private def state(row: InternalRow): InternalRow = {
    val made = new GenericInternalRow(types.length)
    var i = 0
    try while (i < types.length) {
      made.update(i, sources(i).fold(zero.get(i, types(i)))(_.eval(row)))
      i += 1
    } catch { case e: Throwable => throw RowError.of(e) }
    stateCopy(made).copy()
  }

  private def merged(states: Seq[InternalRow]): InternalRow =
    if (states.length == 1) states.head
    else {
      val b = live.load(states.head)
      states.tail.foreach(live.merge(b, _))
      stateCopy(live.stored(b)).copy()
    }

  private def running(key: InternalRow, values: ArrayBuffer[InternalRow]): Seq[InternalRow] = {
    val one = merged(values.map(state).toSeq)
    stored.state(key, one) +: m.ttlMs.toSeq.flatMap { ttl =>
      // A key that was never seen is, as far as its TTL goes, seen when the timer first fires.
      stored.timer(key, if (one.isNullAt(seenAt)) 1L else math.max(1L, one.getLong(seenAt) + ttl))
    }
  }

  private def windows(
      key: InternalRow, values: ArrayBuffer[InternalRow], before: WindowStateLayout): Seq[InternalRow] = {
    val states = values.flatMap(before.open).map(state)
    val open = states.groupBy(_.getLong(startAt)).toSeq.sortBy(_._1).map { case (_, same) =>
      merged(same.toSeq)
    }
    val (due, closed) = (values.map(before.timer).min, values.map(before.closed).max)
    stored.state(key, layout.encode(due, closed, ArrayBuffer.from(open))) +:
      (if (due == TimerTicks.Never) Nil else stored.timer(key, TimerTicks.firing(due)))
  }

  private def keptWindow(key: InternalRow, row: InternalRow): Seq[InternalRow] =
    m.keepMicros.toSeq.flatMap { keep =>
      val (tick, w) = (m.rows.tick(row), oldKept.decode(m.rows.kept(row)))
      stored.kept(key, tick, newKept.encode(WindowState(w.start, w.end, state(w.state)))) +:
        stored.timer(key, math.max(1L, tick + keep / 1000))
    }
}
