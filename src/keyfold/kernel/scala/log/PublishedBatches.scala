package org.apache.spark.sql.execution.keyfold.log

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path

/**
 * The newest batch of each log that a table of this process has published, so that the tables that read it
 * need not list directories to find out. It only says that looking is worth while: what is read are
 * manifests.
 */
object PublishedBatches {
  private val newest = new ConcurrentHashMap[Path, java.lang.Long]

  /** A batch's manifest is in place. */
  def publish(log: Path, batch: Long): Unit =
    newest.merge(log, batch, (one, other) => Math.max(one, other))

  /** The newest published batch; -1 if this process has published none. */
  def newest(log: Path): Long = newest.getOrDefault(log, -1L)

  /** Forgets what an earlier run in this process has published: the log may have been replaced since. */
  def forget(log: Path): Unit = newest.remove(log)
}
