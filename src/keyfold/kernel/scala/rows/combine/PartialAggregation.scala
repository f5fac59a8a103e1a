package org.apache.spark.sql.keyfold.rows.combine

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnFold, FoldEvaluator, InternalColumns}
import org.apache.spark.sql.keyfold.expressions.{RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.admission.{Admission, LatenessCheck, RowAdmission, RowGate}
import org.apache.spark.sql.keyfold.rows.side_output.{NullKeyPartition, SideOutput}
import org.apache.spark.sql.keyfold.rows.steps.RowIterator
import org.apache.spark.sql.keyfold.spark.memory.SparkTaskMemory
import org.apache.spark.sql.keyfold.spark.scan.SparkColumnarRows

/**
 * Folds a table's rows per key before the shuffle, so that a hot key costs one row per partition. The map
 * holds at most `entries` keys, and no more than the task's share of memory: when it is full its states are
 * sent on and it starts over, and when keys hardly repeat aggregation is switched off, so that a row costs a
 * conversion and no lookup. With no `entries` at all every row is sent on at once, as a state of its own.
 */
case class PartialAggregation(
    gate: RowGate, keys: Seq[Expression], fold: AggregateFold, entries: Int,
    lateness: Option[LatenessCheck] = None, mostBytes: Long = Long.MaxValue) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new PartialAggregator(this, partition, rows)
  override def at(watermarkMs: Option[Long]): PartitionStep = copy(lateness = lateness.map(_.at(watermarkMs)))
  // Without entries each row is sent on at once, in real-time mode, whose sources have no columns.
  override def readsColumns: Boolean = fold.flat && entries > 0

  /** Where the key's column is, if the key is one column and no other decides what becomes of a row. */
  private[rows] def keyColumn: Option[Int] = keys.map {
    case alias: Alias => alias.child
    case key => key
  } match {
    case Seq(key: Attribute) if lateness.forall(_.rule.isEmpty) && gate.index(InternalColumns.Replay) < 0 =>
      Some(gate.source.indexWhere(_.exprId == key.exprId)).filter(_ >= 0)
    case _ => None
  }
}

object PartialAggregation {
  /** After this many rows the step looks whether keys repeat at all. */
  val Sample: Int = 1 << 14
  /**
   * States that hold objects are sent on after this many rows: they grow with the rows, not with the keys
   * alone.
   */
  val MaxRowsInObjects: Int = 1 << 20
}

class PartialAggregator(step: PartialAggregation, partition: Int, input: Iterator[InternalRow])
    extends RowIterator {
  /** The rows, where they are positions in columns. */
  private val columnar: SparkColumnarRows = input match {
    case columns: SparkColumnarRows => columns
    case _ => null
  }
  private val admission = new RowAdmission(step.gate, step.lateness, step.keys, partition)
  private val fold = new FoldEvaluator(step.fold)
  private val keyOf = new UserProjection(step.keys, step.gate.source)
  private val types = (step.keys ++ step.fold.state).map(_.dataType)
  private val nullKey = new NullKeyPartition(step.keys.map(_.dataType), step.fold.state.map(_.dataType))
  private val columns = types.zipWithIndex.map { case (t, i) => BoundReference(i, t, nullable = true) }
  private val partial = UnsafeProjection.create(columns :+ SideOutput.none)
  private lazy val undecided =
    UnsafeProjection.create(columns :+ BoundReference(columns.length, SideOutput.schema, nullable = true))
  private val joined = new JoinedRow

  private val states: PartialStates =
    if (fold.flat) new FlatStates(step.keys.length, step.fold.state.length)
    else new ObjectStates(types.length, fold.stored)
  /** Where the key is a column of a file that has numbers for its values. */
  private val numbered: NumberedKeys = states match {
    case flat: FlatStates if columnar != null =>
      step.keyColumn.map(new NumberedKeys(columnar, _, flat)).orNull
    case _ => null
  }
  /** Where code could be generated that folds positions. */
  private val byColumn: ColumnUpdates =
    if (columnar == null) null else ColumnFold(step.fold).map(new ColumnUpdates(columnar, _)).orNull
  /** Rows to be sent before any other: side outputs, and rows that travel by themselves. */
  private val first = new ArrayBuffer[InternalRow]
  /** The states that are being sent. */
  private var draining: () => InternalRow = _
  private var aggregating = step.entries > 0
  /** How many rows have been folded into the map. */
  private var folded = 0L
  /** About how many bytes of rows the states that hold objects have taken in. */
  private var grown = 0L
  private val most = step.mostBytes.min(SparkTaskMemory.heap / 8)

  override protected def advance(): InternalRow = {
    while (true) {
      if (first.nonEmpty) return first.remove(first.length - 1)
      if (draining != null) {
        val state = draining()
        if (state != null) return partial(state)
        draining = null
        states.clear()
        if (numbered != null) numbered.clear()
        folded = 0
        grown = 0
      }
      if (!hasMore) {
        if (states.size == 0) return if (counted.hasNext) nullKey(counted.next()) else null
        drain()
      }
      else if (aggregating) fill()
      else { val row = single(nextRow()); if (row != null) return row }
    }
    null
  }

  // All tables share this class, so that Java can't inline calls of an iterator; of a final class it can.
  private def hasMore: Boolean = if (columnar != null) columnar.hasNext else input.hasNext
  private def nextRow(): InternalRow = if (columnar != null) columnar.next() else input.next()

  // Computed when all rows are read.
  private lazy val counted = admission.countedRejections().iterator

  private def fill(): Unit = while (draining == null && first.isEmpty && hasMore) {
    val row = nextRow()
    try if (isAdmitted(row)) {
      val known = if (numbered == null) null else numbered.state()
      if (known == null) foldByKey(row)
      else {
        update(known, row)
        folded += 1
        if (keysHardlyRepeat) giveWay()
      }
    } catch { case e: RowError => emit(admission.reject(row, e)) }
  }

  private def foldByKey(row: InternalRow): Unit = {
    val key = decidedKey(row)
    if (key == null) return
    val known = states.get(key)
    if (known != null) update(known, row)
    else if (isText(row, key)) states.add(key, folding(row))
    else return
    folded += 1
    grow(row)
    if (numbered != null) numbered.remember()
    if (keysHardlyRepeat) giveWay()
    else if (known == null && states.size >= step.entries) full()
    else if (!fold.flat && folded >= PartialAggregation.MaxRowsInObjects) full()
    else if (grown + states.bytes >= most) full()
  }

  private def keysHardlyRepeat: Boolean = folded == PartialAggregation.Sample && states.size > folded * 0.98

  /** States that hold objects may keep all of a row. */
  private def grow(row: InternalRow): Unit = if (!fold.flat) grown += (row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes + ObjectStates.FieldBytes
    case _ => ObjectStates.EntryBytes
  })

  private def full(): Unit = if (folded < 2L * states.size) giveWay() else drain()
  private def giveWay(): Unit = { aggregating = false; drain() }
  private def drain(): Unit = draining = states.drained()

  private def folding(row: InternalRow): InternalRow = { val b = fold.zero(); update(b, row); b }

  private def update(state: InternalRow, row: InternalRow): Unit =
    if (byColumn == null) fold.update(state, row) else byColumn.update(state.asInstanceOf[UnsafeRow])

  /** A row as a partial state of its own; null if it is not processed. */
  private def single(row: InternalRow): InternalRow = try {
    val key = if (isAdmitted(row)) decidedKey(row) else null
    if (key == null || !isText(row, key)) null else partial(joined(key, fold.stored(folding(row))))
  } catch { case e: RowError => emit(admission.reject(row, e)); null }

  private def isAdmitted(row: InternalRow): Boolean = {
    val begun = admission.begin(row)
    if (begun ne Admission.Admitted) emit(begun)
    begun eq Admission.Admitted
  }

  /** The key of a row that is folded with others; null for a row that is not, or travels by itself. */
  private def decidedKey(row: InternalRow): UnsafeRow = {
    val key = keyOf(row)
    val decided = admission.decide(row, key)
    if (decided eq Admission.Admitted) key
    else if (decided eq Admission.Undecided) { first += alone(key, row); null }
    else { emit(decided); if (decided eq Admission.PartlyLate) key else null }
  }

  private def alone(key: UnsafeRow, row: InternalRow): InternalRow = {
    val state = new JoinedRow(key, fold.stored(folding(row)))
    undecided(new JoinedRow(state, InternalRow(admission.sideOutput))).copy()
  }

  /** Asked once per key and map, not once per row. */
  private def isText(row: InternalRow, key: UnsafeRow): Boolean = {
    val decided = admission.decideText(row, key)
    if (decided ne Admission.Admitted) emit(decided)
    decided eq Admission.Admitted
  }

  private def emit(decided: Admission): Unit =
    if (decided ne Admission.Filtered) first += nullKey(admission.sideOutput)
}

/** Folds the current row of `rows` into a state. */
private final class ColumnUpdates(rows: SparkColumnarRows, fold: ColumnFold) {
  private var batch = 0

  def update(state: UnsafeRow): Unit = {
    if (rows.batchNumber != batch) {
      batch = rows.batchNumber
      fold.begin(rows.batchColumns)
    }
    try fold.update(state, rows.position) catch { case e: Throwable => throw RowError.of(e) }
  }
}
