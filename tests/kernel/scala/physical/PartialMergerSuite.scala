package org.apache.spark.sql.keyfold.physical

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Partial aggregates, here a sum of longs that fails on overflow, merged by group after the shuffle. */
class PartialMergerSuite extends munit.FunSuite {
  private val (total, other) = (long("total"), long("total"))
  private val sum = Add(total, other, EvalMode.ANSI)
  private val fold =
    AggregateFold(Nil, Nil, Seq(total), Seq(other), Seq(Literal(0L)), Seq(total), Some(Seq(sum)), Nil, Nil)

  private def long(name: String) = AttributeReference(name, LongType)()
  private def text(name: String) = AttributeReference(name, StringType)()

  private val byKey = PartialLayout(Seq(text("k"), long("total"), text("side")), 1, 1, 1)
  private val byPane = PartialLayout(Seq(text("k"), long("pane"), long("total"), text("side")), 1, 2, 1)

  private case class Partial(key: String, pane: Long, total: Long, side: String = null)

  private def row(layout: PartialLayout)(p: Partial): UnsafeRow = {
    val values = Seq[Any](UTF8String.fromString(p.key)) ++ (if (layout.groupIsKey) Nil else Seq(p.pane)) ++
      Seq(p.total, UTF8String.fromString(p.side))
    val project = UnsafeProjection.create(layout.input.map(_.dataType).toArray)
    project(new GenericInternalRow(values.toArray)).copy()
  }

  private def partial(layout: PartialLayout)(r: InternalRow): Partial = {
    def text(i: Int) = if (r.isNullAt(i)) null else r.getString(i)
    val pane = if (layout.groupIsKey) 0L else r.getLong(1)
    Partial(text(0), pane, r.getLong(layout.groupCount), text(layout.sideOutput))
  }

  private def merged(layout: PartialLayout, in: Seq[Partial]): Seq[Partial] = {
    val merger = new PartialMerger(fold, layout, Long.MaxValue)
    val out = merger(in.iterator.map(row(layout)), _ => fail("nothing should be spilled"))
    out.map(partial(layout)).toList
  }

  private def sums(in: Seq[Partial]): Map[(String, Long), Long] =
    in.groupMapReduce(p => (p.key, p.pane))(_.total)(_ + _)

  test("partials of a key become one row with their sum") {
    val random = new Random(11)
    val in = Seq.fill(3000)(Partial(s"key-${random.nextInt(100)}", 0, random.nextInt(1000).toLong))
    val out = merged(byKey, in)
    assertEquals(out.length, 100)
    assertEquals(sums(out), sums(in))
  }

  test("panes of a key stay apart and come next to each other") {
    val random = new Random(12)
    def one = Partial(s"key-${random.nextInt(50)}", random.nextInt(4).toLong, random.nextInt(9).toLong)
    val in = Seq.fill(3000)(one)
    val out = merged(byPane, in)
    assertEquals(sums(out), sums(in))
    assertEquals(out.map(p => (p.key, p.pane)).distinct.length, out.length)
    assertEquals(out.indices.count(i => i == 0 || out(i).key != out(i - 1).key), 50)
  }

  test("keys come in the order of their bytes, which is that of the state store") {
    val random = new Random(13)
    // Keys of eight characters that follow a common prefix: eight bytes tell them all apart.
    val in = Seq.fill(2000)(Partial(f"${random.nextInt(1 << 24)}%08d", 0, 1))
    val keyOf = UnsafeProjection.create(byKey.keys, byKey.input)
    val keys = merged(byKey, in).map(p => keyOf(row(byKey)(p)).copy())
    assert(keys.length > 1000)
    keys.zip(keys.tail).foreach { case (a, b) => assert(KeyBytes.compare(a, b) < 0) }
  }

  test("a row with a side output stays by itself and follows its key") {
    val in = Seq(Partial("a", 0, 1), Partial("a", 0, 5, "late"), Partial("b", 0, 2), Partial("a", 0, 3))
    val out = merged(byKey, in)
    assertEquals(out.filter(_.key == "a"), Seq(Partial("a", 0, 4), Partial("a", 0, 5, "late")))
    assertEquals(out.indices.count(i => i == 0 || out(i).key != out(i - 1).key), 2)
  }

  test("a partial that fails to merge stays by itself, and what was merged before it is whole") {
    val most = Long.MaxValue
    val in = Seq(Partial("a", 0, most - 1), Partial("a", 0, 1), Partial("a", 0, 7), Partial("b", 0, 2))
    assertEquals(merged(byKey, in).filter(_.key == "a"), Seq(Partial("a", 0, most), Partial("a", 0, 7)))
  }

  test("rows under a null key come first, as they are") {
    val (first, second) = (Partial(null, 0, 0, "first"), Partial(null, 0, 0, "second"))
    val in = Seq(Partial("a", 0, 1), first, Partial("a", 0, 1), second)
    assertEquals(merged(byKey, in), Seq(first, second, Partial("a", 0, 2)))
  }

  private def spill(layout: PartialLayout): Unit = {
    val random = new Random(14)
    val in = Seq.fill(800)(Partial(s"k${random.nextInt(20)}", 0, 1)) :+ Partial(null, 0, 0, "bad")
    var spilled = Seq.empty[Partial]
    def sort(all: Iterator[InternalRow]): Iterator[InternalRow] = {
      spilled = all.map(partial(layout)).toList
      Iterator.empty
    }
    assert(new PartialMerger(fold, layout, 1500)(in.iterator.map(row(layout)), sort).isEmpty)
    assert(spilled.length > 100, "most rows come after the limit was reached")
    assertEquals(sums(spilled), sums(in))
  }

  test("partials by key that memory should not hold go on to the sorter, and no count is lost") {
    spill(byKey)
  }

  test("partials by pane that memory should not hold go on to the sorter, and no count is lost") {
    spill(byPane)
  }
}
