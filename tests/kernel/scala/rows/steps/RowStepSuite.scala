package org.apache.spark.sql.keyfold.rows.steps

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.admission.{Admission, BehindWatermark, LatenessCheck, LatenessRule}
import org.apache.spark.sql.keyfold.rows.admission.{RowAdmission, RowGate}
import org.apache.spark.sql.keyfold.rows.combine.PartialAggregation
import org.apache.spark.sql.keyfold.rows.parsing.RowOrigin
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** An expression of a user's that throws. */
case class Broken() extends LeafExpression with CodegenFallback {
  override def nullable: Boolean = false
  override def dataType: DataType = BooleanType
  override def eval(row: InternalRow): Any = throw new ArithmeticException("broken")
}

/** Which rows the steps before the shuffle admit, and how partial aggregation bounds its memory. */
class RowStepSuite extends munit.FunSuite {
  private val key = AttributeReference("k", StringType)()
  private val x = AttributeReference("x", IntegerType)()
  private val time = AttributeReference(InternalColumns.Time, TimestampType)()
  private val weight = AttributeReference(InternalColumns.Weight, IntegerType)()
  private val source = Seq(key, x, time, weight)
  private val Late = 1000L

  private def row(k: Any, x: Any = 1, time: Any = 5000L, weight: Int = 1): InternalRow = {
    val text = k match { case s: String => UTF8String.fromString(s); case other => other }
    UnsafeProjection.create(source.map(_.dataType).toArray)(InternalRow(text, x, time, weight)).copy()
  }
  private def gate(conditions: Expression*): RowGate =
    RowGate(
      source, conditions, keepRejected = true, "UTC", RowOrigin(Some("s"), None, Map.empty, files = false))
  private def check(rule: LatenessRule = BehindWatermark(inclusive = false)): Option[LatenessCheck] =
    Some(LatenessCheck(Some(rule), source, Some(time), watermark = Late))
  private def reason(side: InternalRow): String = side.getString(SideOutput.schema.fieldIndex("reason"))

  private def decided(row: InternalRow, conditions: Expression*): (Admission, String) = {
    val admission = new RowAdmission(gate(conditions: _*), check(), Seq(key), 0)
    val begun = admission.begin(row)
    val found = if (begun eq Admission.Admitted) admission.decide(row, row) else begun
    val text = if (found eq Admission.Admitted) admission.decideText(row, row) else found
    (text, if (text eq Admission.Diverted) reason(admission.sideOutput) else null)
  }

  test("a row is admitted, filtered or diverted for the first thing that is wrong with it") {
    val positive = GreaterThan(x, Literal(0))
    assertEquals(decided(row("a"), positive), (Admission.Admitted, null))
    assertEquals(decided(row(null, x = 0), positive), (Admission.Filtered, null))
    assertEquals(decided(row(null, time = null)), (Admission.Diverted, "event time is null"))
    assertEquals(decided(row(null, time = 1L)), (Admission.Diverted, "key k is null"))
    val invalidText = UTF8String.fromBytes(Array[Byte](-1, 65))
    assertEquals(decided(row(invalidText, time = 1L)), (Admission.Diverted, "key k is not valid UTF-8"))
    assertEquals(decided(row(invalidText)), (Admission.Diverted, "key k is not valid UTF-8"))
    val (_, reason) = decided(row("a", time = Late - 1))
    assert(reason.startsWith("behind the watermark of a step before the table"))
    assertEquals(decided(row("a", time = Late)), (Admission.Admitted, null))
  }

  test("a retraction is never rejected: the row that it retracts was") {
    assertEquals(decided(row(null, weight = -1)), (Admission.Filtered, null))
    assertEquals(decided(row("a", time = null, weight = -1)), (Admission.Filtered, null))
  }

  test("rejected rows beyond the limit are counted by the kind of their reason") {
    val admission = new RowAdmission(gate().copy(maxRejected = 2), check(), Seq(key), 0)
    def decide(r: InternalRow) =
      if (admission.begin(r) eq Admission.Admitted) admission.decide(r, r) else Admission.Filtered
    val decisions = (1 to 5).map(_ => decide(row(null)))
    assertEquals(decisions.count(_ eq Admission.Diverted), 2)
    assert(admission.reject(row("a"), "1 is no number") eq Admission.Filtered)
    assert(admission.reject(row("a"), "22 is no number") eq Admission.Filtered)
    val counted = admission.countedRejections().map(s => (reason(s), SideOutput.rejectedRows(s)))
    assertEquals(counted, Seq("key k is null" -> 3L, "1 is no number" -> 2L))
    assertEquals(admission.countedRejections(), Nil)
  }

  private val count = AttributeReference("n", LongType)()
  private val other = count.newInstance().asInstanceOf[AttributeReference]
  private val fold = AggregateFold(source, Seq(key), Seq(count), Seq(other), Seq(Literal(0L)),
    Seq(Add(count, Literal(1L))), Some(Seq(Add(count, other))), Seq(count), Nil)

  /** The key, count and side output of each row that is sent. */
  private def sent(
      rows: Iterator[InternalRow], entries: Int, conditions: Expression*): Seq[(String, Long)] =
    sentBy(PartialAggregation(gate(conditions: _*), Seq(key), fold, entries, check()), rows)

  private def sentBy(step: PartialAggregation, rows: Iterator[InternalRow]): Seq[(String, Long)] =
    step(0, rows).map { r =>
      val side = SideOutput.of(r, 2)
      if (side == null) (r.getString(0), r.getLong(1)) else (reason(side), -1L)
    }.toList

  test("rows of a key are sent once, with their side outputs before them") {
    val rows = Iterator(row("a"), row("b"), row(null), row("a"), row("a"))
    val found = sent(rows, 100)
    assertEquals(found.head, ("key k is null", -1L))
    assertEquals(found.tail.sorted, Seq(("a", 3L), ("b", 1L)))
  }

  test("a full map is sent on and filled again while keys repeat") {
    // Thirty keys of thirty rows: the first row of the 10th, 19th and 28th fills a map.
    val found = sent(Iterator.tabulate(900)(n => row(s"k${n / 30}")), entries = 10)
    assertEquals(found.map(_._2).sum, 900L)
    val split = found.groupBy(_._1).collect { case (k, parts) if parts.length > 1 => k }
    assertEquals(split.toSet, Set("k9", "k18", "k27"))
    assertEquals(found.length, 33)
  }

  test("a map that fills the task's share of memory is sent on") {
    val step = PartialAggregation(gate(), Seq(key), fold, 100, check(), mostBytes = 530)
    val found = sentBy(step, Iterator.tabulate(900)(n => row(s"k${n / 30}")))
    assertEquals(found.map(_._2).sum, 900L)
    // A key takes 96 bytes, so that six of them fill the map, the last one with its first row.
    assert(found.length > 33 && found.length < 40, found.length)
  }

  test("aggregation gives way when the map is full of keys that hardly repeat") {
    val found = sent(Iterator.tabulate(1000)(n => row(s"k${n % 500}")), entries = 100)
    assertEquals(found.map(_._2).sum, 1000L)
    // A hundred states, then each row by itself.
    assertEquals(found.length, 1000)
  }

  test("aggregation gives way after a sample in which keys do not repeat, however large the map") {
    val n = PartialAggregation.Sample + 1000
    val rows = Iterator.range(0, n).map(i => row(if (i < PartialAggregation.Sample) s"k$i" else "same"))
    val found = sent(rows, entries = Int.MaxValue)
    assertEquals(found.length, n)
    assertEquals(found.count(_ == ("same", 1L)), 1000)
  }

  test("a row on which an expression throws is rejected, and the rows around it count") {
    val throwing = If(EqualTo(x, Literal(2)), Broken(), Literal(true))
    val found = sent(Iterator(row("a"), row("a", x = 2), row("a")), 100, throwing)
    assertEquals(found.map(_._2), Seq(-1L, 2L))
    assert(found.head._1.contains("broken"), found.head._1)
  }
}
