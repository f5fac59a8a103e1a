package org.apache.spark.sql.keyfold.physical

import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

/** The partition that holds a stream's watermark back: its newest event time, and since when it does. */
case class HeldBy(partition: String, newestMs: Long, sinceMs: Long)

/**
 * How far event time has come in each partition of a topic, on the driver. The stream is as far as the
 * slowest of them, so that no partition makes another one late. A partition that has had no row for `idleMs`
 * does not count until it has one again, nor does one that never had a row.
 *
 * `begun` are the times at the end of an earlier run, from the manifest of its last batch. How long a
 * partition has been idle is counted from zero: its rows may have waited while nobody read them.
 */
final class PartitionClock(idleMs: Option[Long], begun: Map[String, Long], now: () => Long) {
  private val newest = mutable.TreeMap.empty[String, Long] ++ begun
  private val seen = mutable.HashMap.empty[String, Long] ++ begun.keys.map(_ -> now())
  private var control = Option.empty[Long]
  private var held = Option.empty[HeldBy]
  /** The times of the batch that runs, or ran last, by node of its plan. */
  private val observed = mutable.HashMap.empty[UUID, () => Unit]

  /** What takes in the times of a batch as soon as its tasks are done. */
  def observe(node: UUID, take: () => Unit): Unit = synchronized(observed(node) = take)
  private def takeIn(): Unit = observed.values.foreach(_())

  /**
   * Takes in the newest times of a batch, and that of rows that only advance time; returns how far the stream
   * is. The same batch may be taken in again.
   */
  def advance(batch: collection.Map[String, Long], advanced: Option[Long]): Option[Long] = synchronized {
    val at = now()
    batch.foreach { case (partition, ms) =>
      newest(partition) = math.max(ms, newest.getOrElse(partition, Long.MinValue))
      seen(partition) = at
    }
    control = (control ++ advanced).maxOption
    hold(at)
    (held.map(_.newestMs) ++ control).maxOption
  }

  private def hold(at: Long): Unit = {
    val counting = newest.filter { case (p, _) => idleMs.forall(idle => at - seen(p) < idle) }
    // Where all are idle, none is slower than the others for being so.
    val slowest = (if (counting.isEmpty) newest else counting).minByOption(_._2)
    held = slowest.map { case (partition, ms) =>
      HeldBy(partition, ms, held.filter(_.partition == partition).fold(at)(_.sinceMs))
    }
  }

  /**
   * The newest time of each partition in milliseconds, which are idle, and which holds the watermark, as
   * JSON.
   */
  def report(): String = synchronized {
    takeIn()
    val holds = held.map { h =>
      Map("partition" -> h.partition, "newest" -> h.newestMs, "since" -> h.sinceMs).asJava
    }
    val found = Map("newest" -> newest.asJava, "idle" -> idle.asJava, "held_by" -> holds.orNull)
    new ObjectMapper().writeValueAsString(found.asJava)
  }

  /** Forgets partitions other than these, which exist. */
  def retain(existing: java.util.List[String]): Unit = synchronized {
    val partitions = existing.asScala.toSet
    newest.filterInPlace((p, _) => partitions.contains(p))
    held = held.filter(h => newest.contains(h.partition))
  }

  /** Partitions that have had no row for so long that they do not count. */
  private def idle: Seq[String] = {
    val at = now()
    idleMs.toSeq.flatMap(idle => newest.keys.filter(p => at - seen(p) >= idle))
  }
}
