package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.state.{ChangeEmitter, TimerTicks}
import org.apache.spark.sql.streaming._

/**
 * Joins stream rows with the table's value at their event time. The rows of the table arrive here too, as the
 * columns that its fold reads, and are folded into versions: one for each time at which the key has a row. A
 * version is kept as long as a stream row that is not late, or is buffered, may ask for it. With `maxWait` a
 * row is buffered until the watermark is past its time by more than that: then no version up to its time can
 * be missing.
 */
class EventTimeEnrichProcessor(
    layout: EnrichLayout,
    settings: EnrichSettings,
    fold: AggregateFold,
    ttlMs: Option[Long],
    output: Seq[Expression],
    joinedRow: Seq[Attribute]) extends EnrichProcessor(layout, settings, output, joinedRow) {
  @transient private var state: ValueState[InternalRow] = _
  @transient private lazy val evaluator = new ChangeEmitter(fold)
  private val versionsLayout = VersionsLayout(fold.schema)
  private val maxWait = settings.maxWait.getOrElse(0L)
  override protected val buffered: BufferedRowLayout = BufferedRowLayout(layout.row, hasDeadline = false)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    val encoder = InternalRowEncoder.encoder(versionsLayout.schema)
    state = getHandle.getValueState[InternalRow]("state", encoder, TTLConfig.NONE)
    if (settings.maxWait.isDefined) initBuffer()
  }

  override protected def join(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Unit = {
    val watermark = EventTime.watermark(times.getCurrentWatermarkInMs())
    val batch = new ArrayBuffer[InternalRow](4)
    rows.foreach(r => batch += r.copy())
    val (streamRows, tableRows) = batch.partition(layout.isStreamRow)
    var versions = load()
    if (tableRows.nonEmpty) {
      val inOrder = tableRows.filter(layout.hasTime)
        .sorted(Ordering.comparatorToOrdering(layout.byTimeAndArrival))
      versions = folded(versions, inOrder)
      // Before versions are pruned: buffered rows that are due ask for them.
      if (settings.maxWait.isDefined) emitDueRows(key, versions, watermark)
      store(versions, watermark)
    }
    streamRows.foreach(joinOrBuffer(key, _, versions, watermark))
  }

  private def joinOrBuffer(
      key: InternalRow,
      shuffled: InternalRow,
      versions: Versions,
      watermark: Long): Unit = {
    val time = layout.time(shuffled)
    if (isDue(time, watermark)) emitAsOf(key, layout.row(shuffled), time, versions)
    else {
      appendToBuffer(buffered(layout.row(shuffled), time))
      getHandle.registerTimer(TimerTicks.firing(time + maxWait + 1))
    }
  }

  /** Whether a row can be joined. A version whose time is the watermark itself is not late yet. */
  private def isDue(time: Long, watermark: Long): Boolean = settings.maxWait.forall(_ + time < watermark)

  private def load(): Versions = {
    val stored = state.get()
    if (stored == null) Versions.empty else versionsLayout.decode(stored)
  }

  /** Folds rows of the table in: each becomes part of the version of its time and of all later ones. */
  private def folded(known: Versions, rows: ArrayBuffer[InternalRow]): Versions = {
    val versions = known.all.clone()
    rows.foreach { r =>
      // A row on which the fold throws is skipped: the table itself has it among its rejected rows.
      try foldIn(versions, layout.time(r), layout.value(r), known.pruned) catch { case _: RowError => () }
    }
    Versions(known.pruned, versions)
  }

  private def foldIn(
      versions: ArrayBuffer[Version],
      time: Long,
      value: InternalRow,
      pruned: Boolean): Unit = {
    val i = versions.lastIndexWhere(_.from <= time)
    // All are computed before any is replaced, since the fold may throw.
    val later = versions.drop(i + 1).map(v => Version(v.from, evaluator.plus(v.state, value)))
    val own = Version(time, evaluator.plus(if (i < 0) null else versions(i).state, value))
    later.indices.foreach(j => versions(i + 1 + j) = later(j))
    if (i >= 0 && versions(i).from == time) versions(i) = own
    else if (i >= 0 || !pruned) versions.insert(i + 1, own)
  }

  /** Of the versions up to the watermark less `maxWait`, only the newest may still be asked for. */
  private def store(versions: Versions, watermark: Long): Unit = if (versions.all.nonEmpty) {
    val first = if (watermark == EventTime.NoWatermark) 0
      else math.max(0, versions.all.lastIndexWhere(_.from <= watermark - maxWait))
    val left = Versions(versions.pruned || first > 0, versions.all.drop(first))
    if (ttlMs.isDefined && !state.exists()) registerTtlTimer(left.newest)
    state.update(versionsLayout.encode(left))
  }

  private def expiry(version: Version): Long = version.from + ttlMs.get * 1000
  private def registerTtlTimer(newest: Version): Unit =
    getHandle.registerTimer(TimerTicks.firing(expiry(newest) + maxWait))

  private def emitAsOf(key: InternalRow, row: InternalRow, time: Long, versions: Versions): Unit = {
    val version = versions.asOf(time).filter(v => ttlMs.isEmpty || expiry(v) > time)
    emit(key, row, version.map(v => evaluator.before(key, evaluator.read(v.state))).orNull, time, 1)
  }

  override protected def expire(key: InternalRow, times: TimerValues): Unit = {
    val watermark = EventTime.watermark(times.getCurrentWatermarkInMs())
    val versions = load()
    if (settings.maxWait.isDefined) emitDueRows(key, versions, watermark)
    if (ttlMs.isDefined && versions.all.nonEmpty) {
      if (expiry(versions.newest) + maxWait <= watermark) state.clear() else registerTtlTimer(versions.newest)
    }
  }

  private def emitDueRows(key: InternalRow, versions: Versions, watermark: Long): Unit = {
    val (due, left) = bufferedRows().partition(r => isDue(buffered.time(r), watermark))
    if (due.nonEmpty) {
      due.sortBy(buffered.time).foreach(r => emitAsOf(key, buffered.row(r), buffered.time(r), versions))
      replaceBuffer(left)
    }
  }
}
