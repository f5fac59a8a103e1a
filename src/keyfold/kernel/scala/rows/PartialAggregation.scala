package org.apache.spark.sql.keyfold.rows

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, FoldEvaluator, RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.types._

/**
 * A table's rows folded per key before the shuffle, so that a hot key costs one row per partition. The map is bounded: when it is full it is sent on and
 * begun anew, and when keys hardly repeat it gives way, so that rows cost a conversion and no look-up.
 */
case class PartialAggregation(gate: RowGate, keys: Seq[Expression], fold: AggregateFold, entries: Int, timing: Option[LatenessCheck] = None) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = new PartialAggregator(this, partition, rows)
  override def at(watermark: Long): PartitionStep = copy(timing = timing.map(_.copy(watermark = watermark)))
}

class PartialAggregator(c: PartialAggregation, part: Int, rows: Iterator[InternalRow]) extends Iterator[InternalRow] {
  private val gated = new RowGateEvaluator(c.gate, part)
  private val timing = c.timing.map(new LatenessEvaluator(_, gated.rejects)).orNull
  private val live = new FoldEvaluator(c.fold)
  private val keys = new UserProjection(c.keys, c.gate.source)
  private val check = new KeyValidation(c.keys)
  private val lane = new NullKeyPartition(c.keys.map(_.dataType), c.fold.state.map(_.dataType))
  private val fields = (c.keys.map(_.dataType) ++ c.fold.state.map(_.dataType)).zipWithIndex.map { case (t, i) => BoundReference(i, t, nullable = true) }
  private val send = UnsafeProjection.create(fields :+ SideOutput.none)
  private lazy val sendWith = UnsafeProjection.create(fields :+ BoundReference(fields.length, SideOutput.schema, nullable = true))
  private val joined = new JoinedRow
  private val map = new java.util.HashMap[UnsafeRow, InternalRow]
  private val aside = new ArrayBuffer[InternalRow]
  private var draining: java.util.Iterator[java.util.Map.Entry[UnsafeRow, InternalRow]] = _
  private var combining = true
  private var folded = 0L
  private var ready: InternalRow = _

  override def hasNext: Boolean = { if (ready == null) ready = advance(); ready != null }
  override def next(): InternalRow = { if (!hasNext) throw new NoSuchElementException; val r = ready; ready = null; r }

  private def advance(): InternalRow = {
    while (true) {
      if (aside.nonEmpty) return aside.remove(aside.length - 1)
      if (draining != null) {
        if (draining.hasNext) { val e = draining.next(); return send(joined(e.getKey, live.stored(e.getValue))) }
        draining = null
        map.clear()
        folded = 0
      }
      if (!rows.hasNext) { if (map.isEmpty) return null; draining = map.entrySet().iterator() }
      else if (combining) fill()
      else { val r = single(rows.next()); if (r != null) return r }
    }
    null
  }

  private def fill(): Unit = while (draining == null && aside.isEmpty && rows.hasNext) {
    val row = rows.next()
    try {
      val key = keyOf(row)
      if (key != null) {
        val known = map.get(key)
        if (known != null) { live.update(known, row); folded += 1 }
        else if (sound(key, row)) {
          val b = live.zero()
          live.update(b, row)
          folded += 1
          map.put(key.copy(), b)
          if (map.size >= c.entries) full()
        }
        if (folded == PartialAggregation.Sample && map.size > folded * 0.98) giveWay()
        // Buffers that are objects grow with the rows folded into them, not with the keys alone.
        else if (!live.flat && folded >= PartialAggregation.Objects) full()
      }
    } catch { case e: RowError => reject(row, e) }
  }

  private def full(): Unit = if (folded < 2L * map.size) giveWay() else draining = map.entrySet().iterator()
  private def giveWay(): Unit = { combining = false; draining = map.entrySet().iterator() }

  private def single(row: InternalRow): InternalRow = try {
    val key = keyOf(row)
    if (key == null || !sound(key, row)) null
    else {
      val b = live.zero()
      live.update(b, row)
      send(joined(key, live.stored(b)))
    }
  } catch { case e: RowError => reject(row, e); null }

  /** The key of a row that counts; null for one that is filtered or set aside. */
  private def keyOf(row: InternalRow): UnsafeRow = {
    val why = gated.sideOutput(row)
    if (why != null) { aside += lane(why); return null }
    if (!gated.passes(row)) return null
    val untimely = if (timing == null) null else timing.wrong(row)
    val key = if (untimely == null) keys(row) else null
    val wrong = if (untimely != null) untimely else check.missing(key)
    if (wrong != null) { if (!gated.takenBack(row)) aside += lane(gated.rejects.rejected(row, wrong)) }
    else if (timing == null || onTime(row, key)) return key
    null
  }

  /** Whether the row may be folded with others; one that is late or replayed is sent on by itself. */
  private def onTime(row: InternalRow, key: UnsafeRow): Boolean = {
    val text = timing.late(row)
    if (text == null) return true
    if (!sound(key, row)) return false
    if (!timing.alone(row)) { aside += lane(text); return timing.open(row) }
    val b = live.zero()
    live.update(b, row)
    aside += sendWith(new JoinedRow(new JoinedRow(key, live.stored(b)), InternalRow(text))).copy()
    false
  }

  /** Looked at once a key and batch, not once a row. */
  private def sound(key: UnsafeRow, row: InternalRow): Boolean = {
    val why = check.garbled(key)
    if (why != null && !gated.takenBack(row)) aside += lane(gated.rejects.rejected(row, why))
    why == null
  }

  private def reject(row: InternalRow, e: RowError): Unit = if (!gated.takenBack(row)) aside += lane(gated.rejects.rejected(row, e))
}

object PartialAggregation {
  /** After so many rows the combiner looks whether keys repeat at all. */
  val Sample: Int = 1 << 14
  /** So many rows are folded into buffers that are objects before they are sent on. */
  val Objects: Int = 1 << 20
}
