package org.apache.spark.sql.execution.keyfold.log

import scala.collection.mutable

/** How much of a log one batch of a reader takes; at least one batch of the log, whatever its size. */
case class LogLimits(rows: Long = 5000000L, batches: Int = Int.MaxValue, emptyBatches: Int = 100)

/**
 * The batches of a log that its reader has not committed. The directory is listed once. After that, batches
 * that `PublishedBatches` announces are looked for by their names. Numbers may have gaps, but manifests
 * appear in the order of their numbers, and each names the one before it.
 */
class UnreadBatches(log: LogDirectory) {
  // All batches behind `from` that exist, up to `upto`; their manifests are read when they are needed.
  private val batches = mutable.TreeSet.empty[Long]
  private val manifests = mutable.HashMap.empty[Long, ChangeManifest]
  private var (from, upto) = (Long.MaxValue, -1L)

  /**
   * The batch up to which a reader that has read up to `after` reads next; None if it has nothing to read.
   * Batches without changes are passed over together with the next one that has some. Many of them are
   * reason enough to move on, since the log can't be pruned past its readers.
   */
  def next(after: Long, limits: LogLimits): Option[Long] = synchronized {
    look(after)
    var (last, rows, taken) = (after, 0L, 0)
    val unread = batches.iteratorFrom(after + 1).map(load)
    unread.takeWhile(m => rows == 0 || rows + m.rows <= limits.rows && taken < limits.batches).foreach { m =>
      last = m.batch
      rows += m.rows
      taken += 1
    }
    if (rows > 0 || taken >= limits.emptyBatches) Some(last) else None
  }

  /** The manifests of the batches behind `after`, up to `last`, which must exist. */
  def between(after: Long, last: Long): Seq[ChangeManifest] = synchronized {
    look(after)
    if (last > after && !batches(last)) throw missing(last)
    batches.range(after + 1, last + 1).toSeq.map(load)
  }

  /** The size of those that are known, without reading any. */
  def knownBytes(after: Long, last: Long): Long = synchronized {
    batches.range(after + 1, last + 1).iterator.flatMap(manifests.get).map(_.bytes).sum
  }

  /** Batches up to this one are not asked for again. */
  def forget(last: Long): Unit = synchronized {
    batches.rangeTo(last).toSeq.foreach(batches.remove)
    manifests.filterInPlace((batch, _) => batch > last)
    from = from.max(last)
  }

  private def look(after: Long): Unit = {
    val published = PublishedBatches.newest(log.path)
    if (after < from) {
      refuseIfPruned(after + 1)
      batches.clear()
      add(after, log.batches(after))
      from = after
    } else if (published > upto) {
      add(upto, (upto + 1 to published).filter(exists))
    }
  }

  /** Adds the batches that exist behind `known`. A number that is missing between them must be a gap. */
  private def add(known: Long, found: Seq[Long]): Unit = {
    val last = found.lastOption.getOrElse(known)
    if (found.size < last - known) refuseIfPruned(known + 1)
    batches ++= found
    upto = last
  }

  /** A log is pruned behind its readers. What is pruned may still have a manifest, but not its changes. */
  private def refuseIfPruned(needed: Long): Unit = {
    val pruned = log.prunedUpto()
    if (pruned >= needed) throw LogProblem.pruned(log.path, pruned, needed)
  }

  private def exists(batch: Long): Boolean = {
    val found = log.manifest(batch)
    found.foreach(manifests(batch) = _)
    found.isDefined
  }

  private def load(batch: Long): ChangeManifest = {
    val found = manifests.getOrElseUpdate(batch, log.manifest(batch).getOrElse(throw missing(batch)))
    found.previous.filter(before => before > from && !batches(before)).foreach(lost => throw missing(lost))
    found
  }

  private def missing(batch: Long) = {
    refuseIfPruned(batch)
    LogProblem.damaged(log.manifestFile(batch), "is missing")
  }
}
