package org.apache.spark.sql.keyfold.physical

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow

/** One order for all that process a key's rows in order. */
class OrderStampSuite extends munit.FunSuite {
  private def shuffled(rows: Seq[InternalRow], seed: Int, order: java.util.Comparator[InternalRow]) =
    new Random(seed).shuffle(rows).sorted(Ordering.comparatorToOrdering(order))
  private def stamped(time: Any, arrival: Long): InternalRow = InternalRow("x", InternalRow(time, arrival))

  test("rows are ordered by event time, then by arrival, and rows without a time come first") {
    val sorted = Seq(stamped(null, 1), stamped(null, 9), stamped(-5L, 8), stamped(0L, 3), stamped(0L, 4),
      stamped(7L, 0))
    for (seed <- 1 to 10) assertEquals(shuffled(sorted, seed, OrderStamp.order(1)), sorted)
  }

  test("the same order holds for times and arrivals in columns of their own") {
    val sorted = Seq((-5L, 8L), (0L, 3L), (0L, 4L), (7L, 0L)).map { case (t, a) => InternalRow(a, "x", t) }
    for (seed <- 1 to 10) assertEquals(shuffled(sorted, seed, OrderStamp.order(2, 0)), sorted)
  }

  test("a row without an event time counts as of time zero") {
    assertEquals((OrderStamp.micros(stamped(null, 1), 1), OrderStamp.micros(stamped(5L, 1), 1)), (0L, 5L))
  }
}
