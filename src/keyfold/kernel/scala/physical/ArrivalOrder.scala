package org.apache.spark.sql.keyfold.physical

import scala.collection.mutable
import scala.math.Ordering.Implicits._

import org.apache.spark.Partition
import org.apache.spark.sql.keyfold.spark.scan.{FileBlock, SparkInputFiles, SparkInputMessages}

/**
 * The order in which the rows of a batch count as arrived, which is the same whenever the batch runs, on any
 * number of cores: by branch of a union, then by file in the order in which the batch lists them, then by
 * position in the file. Spark cuts files into blocks, and packs these into partitions, by the number of
 * cores; so blocks are ordered by file and first byte, whichever partition they are in, and rows by their
 * number in the block. Messages of Kafka are ordered by topic, partition and offset; rows that come from
 * neither are ordered by partition.
 */
case class ArrivalOrder(partition: Int, blocks: Map[FileBlock, Int])

object ArrivalOrder {
  /** How many rows a block may have is what is left of a long: two to the power of 40. */
  private val RowBits = 40
  private[physical] def first(place: Int): Long = place.toLong << RowBits

  /** The place, among the blocks and partitions of a batch, of a row's position in the order of arrival. */
  def placeOf(arrival: Long): Int = (arrival >>> RowBits).toInt

  /** A block, or a partition that reads none, by what it is ordered by. */
  private case class Piece(
      partition: Int, block: Option[FileBlock], branch: Seq[Int], rank: Long, start: Long)

  /** The order of each of a plan's input partitions. */
  def of(partitions: Array[Partition]): Array[ArrivalOrder] = {
    val ranges = partitions.flatMap(SparkInputMessages.of).map(r => (r.topic, r.partition))
    val ranks = ranges.distinct.sorted.zipWithIndex.toMap
    val sorted = partitions.toSeq.flatMap(pieces(_, ranks))
      .sortBy(x => (x.branch, x.rank, x.start, x.partition))
    val places = sorted.zipWithIndex.groupBy(_._1.partition)
    partitions.map { p =>
      val own = places.getOrElse(p.index, Nil)
      val blocks = own.collect { case (Piece(_, Some(block), _, _, _), place) => block -> place }.toMap
      ArrivalOrder(own.collectFirst { case (Piece(_, None, _, _, _), place) => place }.getOrElse(-1), blocks)
    }
  }

  private def pieces(p: Partition, topics: Map[(String, Int), Int]): Seq[Piece] = {
    val (branch, files) = (SparkInputFiles.branch(p), SparkInputFiles.of(p))
    val ranks = files.map(SparkInputFiles.rank)
    // Spark lists the partitions of topics in no order that it would keep.
    for (r <- SparkInputMessages.of(p))
      return Seq(Piece(p.index, None, branch, topics((r.topic, r.partition)).toLong, r.from))
    if (files.isEmpty || ranks.exists(_.isEmpty)) Seq(Piece(p.index, None, branch, Long.MaxValue, 0L))
    else files.zip(ranks).map { case (file, rank) =>
      val block = SparkInputFiles.block(file)
      Piece(p.index, Some(block), branch, rank.get.toLong, block.start)
    }
  }
}

/** Numbers the rows of one task in the order of arrival; called once per row, while it is the current one. */
final class ArrivalCounter(order: ArrivalOrder) {
  // By identity: Spark makes a new text for each block that it begins to read.
  private var current: AnyRef = _
  private var place = order.partition
  private var n = 0L
  /** How many rows of each place have been numbered, where it is not the current one. */
  private val numbered = mutable.HashMap.empty[Int, Long]

  def next(): Long = {
    if (order.blocks.nonEmpty) {
      val url = SparkInputFiles.currentUrl
      if (url ne current) begin(url)
    }
    n += 1
    ArrivalOrder.first(place) | n
  }

  private def begin(url: AnyRef): Unit = {
    current = url
    val found = order.blocks.getOrElse(SparkInputFiles.currentBlock, place)
    if (found != place) {
      numbered(place) = n
      place = found
      n = numbered.getOrElse(place, 0L)
    }
  }
}
