package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, AttributeSeq, BindReferences}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RefusedException}
import org.apache.spark.sql.keyfold.rows.admission.{LateRowHandling, Lateness, NeverLate}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

/** Each window kind's panes, lateness and state, without a session. Times are minutes, as microseconds. */
class WindowKindSuite extends munit.FunSuite {
  private def minutes(n: Long): Long = n * 60L * 1000 * 1000
  private val time = AttributeReference("time", TimestampType)()
  private val gap = AttributeReference("gap", CalendarIntervalType)()
  private val columns = AggregateFold(Nil, Seq(time), Nil, Nil, Nil, Nil, Some(Nil), Nil, Nil)

  private def sliding(size: Long, every: Long) =
    TimeWindow(WindowGrid(minutes(size), minutes(every), 0, None), time)
  private val tumbling = sliding(10, 10)
  private val session = SessionWindow(ConstantGap(minutes(5)), time)
  private val sessionByRow = SessionWindow(GapPerRow(gap), time)
  private val rolling = RollingWindow(Some(minutes(30)), None, None, Some(time))

  private def lateness(kind: WindowKind, at: Long, watermark: Long): Lateness = kind.lateness
    .evaluator(Seq(time)).lateness(InternalRow(minutes(at)), minutes(at), minutes(watermark))

  private def row(at: Long, gapMinutes: java.lang.Long): InternalRow = InternalRow(
    minutes(at), if (gapMinutes == null) null else new CalendarInterval(0, 0, minutes(gapMinutes)))

  test("a row of a tumbling window is late once the watermark has reached the window's end") {
    assertEquals(lateness(tumbling, at = 12, watermark = 19), null)
    assertEquals(lateness(tumbling, at = 12, watermark = 20),
      Lateness(1, Seq((minutes(10), minutes(20))), minutes(20), LateRowHandling.Drop))
  }

  test("a row of sliding windows is folded into those that are open, and late for the others") {
    // At 12 it belongs to [0, 15), [5, 20) and [10, 25).
    val windows = sliding(size = 15, every = 5)
    assertEquals(lateness(windows, at = 12, watermark = 14), null)
    assertEquals(lateness(windows, at = 12, watermark = 21), Lateness(2,
      Seq((0L, minutes(15)), (minutes(5), minutes(20))), minutes(20), LateRowHandling.FoldIntoOpenWindows))
    val all = lateness(windows, at = 12, watermark = 25)
    assertEquals((all.missed, all.lastEnd), (3L, minutes(25)))
    assertEquals[LateRowHandling, LateRowHandling](all.handling, LateRowHandling.Drop)
  }

  test("a late row lists at most a hundred of the windows it missed, and counts all of them") {
    val found = lateness(sliding(size = 500, every = 1), at = 1000, watermark = 5000)
    assertEquals((found.missed, found.windows.length, found.lastEnd), (500L, 100, minutes(1500)))
    assertEquals(found.windows.head, (minutes(501), minutes(1001)))
  }

  test("only the key's state can tell whether a row is late for its session") {
    assertEquals(lateness(session, at = 12, watermark = 16), null)
    assertEquals(lateness(session, at = 12, watermark = 17),
      Lateness(1, Seq((minutes(12), minutes(17))), minutes(17), LateRowHandling.AskState))
  }

  test("where each row has its own gap, that gap decides when the row's session ends") {
    val rule = sessionByRow.lateness.evaluator(Seq(time, gap))
    assertEquals(rule.lateness(row(12, 3L), minutes(12), minutes(14)), null)
    assertEquals(rule.lateness(row(12, 3L), minutes(12), minutes(15)).lastEnd, minutes(15))
    assertEquals(rule.lateness(row(12, 9L), minutes(12), minutes(15)), null)
  }

  test("a gap that is null, or shorter than a millisecond, makes a row invalid") {
    val rule = sessionByRow.lateness.evaluator(Seq(time, gap))
    assertEquals(rule.invalid(row(12, 3L), minutes(12)), null)
    assert(rule.invalid(row(12, null), minutes(12)).contains("is null"))
    assert(rule.invalid(row(12, 0L), minutes(12)).contains("less than a millisecond"))
  }

  test("a gap is an interval or a text, and anything else is refused when it is declared") {
    val text = Literal("5 minutes")
    assertEquals[Option[Expression], Option[Expression]](GapPerRow(text).declared, Some(text))
    intercept[RefusedException](GapPerRow(Literal(5)))
    assertEquals(session.gapExpression, None)
  }

  test("rows are pre-aggregated in panes, except for rolling windows, which see each row") {
    assertEquals(tumbling.panes.get.of(minutes(19)), minutes(10))
    assertEquals(session.panes.get.of(minutes(9)), session.panes.get.of(minutes(5)))
    assertNotEquals(session.panes.get.of(minutes(10)), session.panes.get.of(minutes(9)))
    assertNotEquals(sessionByRow.panes.get.of(1L), sessionByRow.panes.get.of(2L))
    assertEquals(rolling.panes, None)
    assertEquals(rolling.lateness, NeverLate)
  }

  test("windows that close keep their start, sessions their end too, and both have bounds in the key") {
    def shape(kind: WindowKind) = {
      val fold = kind.extend(columns)
      (fold.state.map(_.name), fold.keys.map(_.name))
    }
    val bounds = Seq("time", "window_start", "window_end")
    assertEquals(shape(tumbling), (Seq(InternalColumns.Start), bounds))
    assertEquals(shape(session), (Seq(InternalColumns.Start, InternalColumns.End), bounds))
    assertEquals(shape(rolling), (Nil, Seq("time")))
    assertEquals(shape(rolling.copy(pane = Some(minutes(1)))), (Seq(InternalColumns.Start), Seq("time")))
    assertEquals(Seq[WindowKind](tumbling, session, rolling).map(_.closes), Seq(true, true, false))
  }

  test("a session of one row ends a gap after it, a day being 24 hours in every zone") {
    def end(kind: SessionWindow, values: InternalRow) =
      BindReferences.bindReference(kind.gap.end(time), AttributeSeq(Seq(time, gap))).eval(values)
    assertEquals(end(session, row(12, 3L)), minutes(17))
    assertEquals(end(sessionByRow, row(12, 3L)), minutes(15))
    val day = InternalRow(minutes(12), new CalendarInterval(0, 1, 0))
    assertEquals(end(sessionByRow, day), minutes(12 + 24 * 60))
    val text = SessionWindow(GapPerRow(Literal.create(UTF8String.fromString("5 minutes"), StringType)), time)
    assertEquals(end(text, row(12, null)), minutes(17))
  }
}
