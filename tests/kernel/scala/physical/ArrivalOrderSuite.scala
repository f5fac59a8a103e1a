package org.apache.spark.sql.keyfold.physical

import org.apache.spark.Partition
import org.apache.spark.paths.SparkPath
import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}

/** Rows count as arrived by file and position, however files are cut and packed. */
class ArrivalOrderSuite extends munit.FunSuite {
  private case class Block(name: String, rank: Int, start: Long, rows: Int)

  private def file(b: Block): PartitionedFile = PartitionedFile(InternalRow.empty,
    SparkPath.fromUrlString(s"file:/in/${b.name}"), b.start, 10, Array.empty[String], 0L, 100L,
    Map("keyfold.rank" -> b.rank))

  /** The rows of each partition in the order of their stamps; a row is its file and its number there. */
  private def read(partitions: Seq[Block]*): Seq[String] = {
    val inputs = partitions.zipWithIndex.map { case (b, i) => FilePartition(i, b.map(file).toArray) }
    val orders = ArrivalOrder.of(inputs.toArray[Partition])
    val stamped = partitions.zip(orders).flatMap { case (blocks, order) =>
      val arrivals = new ArrivalCounter(order)
      blocks.flatMap { b =>
        InputFileBlockHolder.set(file(b).urlEncodedPath, b.start, 10)
        (0 until b.rows).map(n => arrivals.next() -> s"${b.name}${b.start + n}")
      }
    }
    assertEquals(stamped.map(_._1).distinct.size, stamped.size, "no two rows have one stamp")
    stamped.sortBy(_._1).map(_._2)
  }

  test("rows come by the rank of their file, then by position, whichever partition reads them") {
    val (a, b) = (Block("a", rank = 1, 0, 3), Block("b", rank = 0, 0, 2))
    val rest = Block("a", rank = 1, 3, 2)
    val expected = Seq("b0", "b1", "a0", "a1", "a2", "a3", "a4")
    assertEquals(read(Seq(a.copy(rows = 5), b)), expected)
    assertEquals(read(Seq(a), Seq(b), Seq(rest)), expected)
    assertEquals(read(Seq(rest, b), Seq(a)), expected)
    assertEquals(read(Seq(rest, a, b)), expected)
  }

  test("rows that come from no file are ordered by partition") {
    val plain = Seq(0, 1).map(i => new Partition { override def index: Int = i })
    val stamps = ArrivalOrder.of(plain.toArray).flatMap { order =>
      val arrivals = new ArrivalCounter(order)
      Seq.fill(3)(arrivals.next())
    }
    assertEquals(stamps.toSeq, stamps.sorted.distinct.toSeq)
  }

  test("a file that is left and read on continues where it was") {
    val order = ArrivalOrder.of(Array[Partition](FilePartition(0, Array(file(Block("a", 0, 0, 0)),
      file(Block("b", 1, 0, 0))))))
    val arrivals = new ArrivalCounter(order.head)
    val stamps = Seq("a", "b", "a").flatMap { name =>
      InputFileBlockHolder.set(s"file:/in/$name", 0, 10)
      Seq.fill(2)(arrivals.next())
    }
    assertEquals(stamps.distinct.size, 6)
  }
}
