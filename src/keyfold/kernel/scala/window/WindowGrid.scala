package org.apache.spark.sql.keyfold.window

import java.time.{LocalDateTime, ZoneId, ZoneOffset, ZonedDateTime}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/** Lines in time, `every` microseconds apart from `offset` on; with a zone, by the clock on its walls, so that days have 23 to 25 hours. */
case class WindowEdges(every: Long, offset: Long, zone: Option[String]) {
  @transient private lazy val place: ZoneId = zone.map(ZoneId.of).orNull

  def at(k: Long): Long = {
    val wall = Math.addExact(Math.multiplyExact(k, every), offset)
    if (place == null) wall else instant(wall)
  }

  /** The last line at or before a time. */
  def index(t: Long): Long = if (place == null) Math.floorDiv(t - offset, every) else {
    var k = Math.floorDiv(wall(t) - offset, every)
    // Where clocks are put back, a time on the wall comes twice.
    while (at(k + 1) <= t) k += 1
    while (at(k) > t) k -= 1
    k
  }

  private def instant(wall: Long): Long = {
    val local = LocalDateTime.ofEpochSecond(Math.floorDiv(wall, 1000000L), Math.floorMod(wall, 1000000L).toInt * 1000, ZoneOffset.UTC)
    val there = ZonedDateTime.ofLocal(local, place, null)
    there.toEpochSecond * 1000000L + there.getNano / 1000
  }
  private def wall(t: Long): Long = {
    val seconds = Math.floorDiv(t, 1000000L)
    t + place.getRules.getOffset(java.time.Instant.ofEpochSecond(seconds)).getTotalSeconds * 1000000L
  }
}

/** Says in which cell a time is; rows of one key and cell may be folded together before anything else is known of them. */
trait PaneAssigner extends Serializable { def of(micros: Long): Long }

/**
 * Tumbling and sliding windows: the k-th is [starts.at(k), ends.at(k)). Between two neighbouring lines lies a pane, the cell of this grid: every window is made of
 * whole panes, whatever its size and step, so that a row is folded once.
 */
case class WindowGrid(starts: WindowEdges, ends: WindowEdges) extends PaneAssigner {
  val tumbling: Boolean = starts.every == ends.offset - starts.offset
  @transient private var (low, high) = (0L, 0L)

  /** The pane that holds a time, by its start; neighbours in time are mostly in the same. */
  override def of(t: Long): Long = {
    if (t < low || t >= high) {
      val (s, e) = (starts.index(t), if (tumbling) 0L else ends.index(t))
      low = if (tumbling) starts.at(s) else math.max(starts.at(s), ends.at(e))
      high = if (tumbling) starts.at(s + 1) else math.min(starts.at(s + 1), ends.at(e + 1))
    }
    low
  }

  /** The windows that hold a time, by number: from the first to the last. */
  def first(t: Long): Long = if (tumbling) starts.index(t) else ends.index(t) + 1
  def last(t: Long): Long = starts.index(t)
  def start(k: Long): Long = starts.at(k)
  def end(k: Long): Long = ends.at(k)
}

object WindowGrid {
  def apply(size: Long, every: Long, offset: Long, zone: Option[String]): WindowGrid = WindowGrid(WindowEdges(every, offset, zone), WindowEdges(every, offset + size, zone))
}

/** Rows of one key that are closer than a constant gap are of one session, wherever it begins and ends. */
case class GapPanes(gap: Long) extends PaneAssigner { override def of(t: Long): Long = Math.floorDiv(t, gap) }

/** Where each row has a gap of its own, only rows of the same moment are surely of one session. */
case object InstantPanes extends PaneAssigner { override def of(t: Long): Long = t }

/** The cell of a row's time. */
case class PaneOf(child: Expression, cells: PaneAssigner) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def nullSafeEval(t: Any): Any = cells.of(t.asInstanceOf[Long])
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val c = ctx.addReferenceObj("cells", cells, classOf[PaneAssigner].getName)
    defineCodeGen(ctx, ev, t => s"$c.of($t)")
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}
