package org.apache.spark.sql.keyfold.window

import java.time.{LocalDateTime, ZoneId, ZoneOffset, ZonedDateTime}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/**
 * Edges of windows: instants that are `every` microseconds apart, shifted by `offset`. With a zone they are
 * equally spaced in its local time, so that days have 23 to 25 hours.
 */
case class WindowEdges(every: Long, offset: Long, zone: Option[String]) {
  @transient private lazy val zoneId: ZoneId = zone.map(ZoneId.of).orNull

  def at(k: Long): Long = {
    val local = Math.addExact(Math.multiplyExact(k, every), offset)
    if (zoneId == null) local else instant(local)
  }

  /** The last edge at or before a time. */
  def index(t: Long): Long = if (zoneId == null) Math.floorDiv(t - offset, every) else {
    var k = Math.floorDiv(localTime(t) - offset, every)
    // Where daylight saving time ends, a local time occurs twice.
    while (at(k + 1) <= t) k += 1
    while (at(k) > t) k -= 1
    k
  }

  private def instant(local: Long): Long = {
    val (seconds, micros) = (Math.floorDiv(local, 1000000L), Math.floorMod(local, 1000000L))
    val dateTime = LocalDateTime.ofEpochSecond(seconds, micros.toInt * 1000, ZoneOffset.UTC)
    val zoned = ZonedDateTime.ofLocal(dateTime, zoneId, null)
    zoned.toEpochSecond * 1000000L + zoned.getNano / 1000
  }

  private def localTime(t: Long): Long = {
    val seconds = Math.floorDiv(t, 1000000L)
    t + zoneId.getRules.getOffset(java.time.Instant.ofEpochSecond(seconds)).getTotalSeconds * 1000000L
  }
}

/** Assigns times to panes. Rows of one key and pane may be pre-aggregated, whatever windows they are in. */
trait PaneAssigner extends Serializable { def of(micros: Long): Long }

/**
 * Tumbling and sliding windows: the k-th is [starts.at(k), ends.at(k)). A pane lies between two adjacent
 * edges: every window consists of whole panes, whatever its size and step, so that a row is folded once.
 */
case class WindowGrid(starts: WindowEdges, ends: WindowEdges) extends PaneAssigner {
  val tumbling: Boolean = starts.every == ends.offset - starts.offset
  @transient private var (low, high) = (0L, 0L)

  /** The start of the pane that contains a time. The last pane is cached: times mostly come in order. */
  override def of(t: Long): Long = {
    if (t < low || t >= high) {
      val (s, e) = (starts.index(t), if (tumbling) 0L else ends.index(t))
      low = if (tumbling) starts.at(s) else math.max(starts.at(s), ends.at(e))
      high = if (tumbling) starts.at(s + 1) else math.min(starts.at(s + 1), ends.at(e + 1))
    }
    low
  }

  /** The numbers of the windows that contain a time: from the first to the last. */
  def first(t: Long): Long = if (tumbling) starts.index(t) else ends.index(t) + 1
  def last(t: Long): Long = starts.index(t)
  def start(k: Long): Long = starts.at(k)
  def end(k: Long): Long = ends.at(k)
}

object WindowGrid {
  def apply(size: Long, every: Long, offset: Long, zone: Option[String]): WindowGrid =
    WindowGrid(WindowEdges(every, offset, zone), WindowEdges(every, offset + size, zone))
}

/** Panes as long as a constant gap: rows of one key and pane are in one session, wherever it begins. */
case class GapPanes(gap: Long) extends PaneAssigner { override def of(t: Long): Long = Math.floorDiv(t, gap) }

/** Where each row has a gap of its own, only rows of the same instant are certain to be in one session. */
case object InstantPanes extends PaneAssigner { override def of(t: Long): Long = t }

/** The pane of a row's time. */
case class PaneOf(child: Expression, panes: PaneAssigner) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def nullSafeEval(t: Any): Any = panes.of(t.asInstanceOf[Long])
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val assigner = ctx.addReferenceObj("panes", panes, classOf[PaneAssigner].getName)
    defineCodeGen(ctx, ev, t => s"$assigner.of($t)")
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}
