package org.apache.spark.sql.execution.keyfold.log

import org.apache.hadoop.fs.Path

/**
 * What keeps a table from reading another table's log. Python recognises the marks, and says in which table
 * that is and what to do about it.
 */
object LogProblem {
  /** A file of a log is not what the log says it is; `how` continues the sentence that its name begins. */
  def damaged(file: Path, how: String): IllegalStateException =
    new IllegalStateException(s"[KEYFOLD_LOG_DAMAGED] ${file.toUri} $how")

  /** The log has lost batches that a table has not read: it begins after the batch `upto`. */
  def pruned(log: Path, upto: Long, needed: Long): IllegalStateException =
    new IllegalStateException(s"[KEYFOLD_LOG_PRUNED] ${log.toUri} begins after batch $upto, needed $needed")
}
