package org.apache.spark.sql.execution.keyfold.log

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException
import org.apache.spark.sql.keyfold.expressions.KernelError

/**
 * What keeps a table from reading another table's log. Python says in which table that is and what to do
 * about it.
 */
object LogProblem {
  /** A file of a log is not what the log says it is; `problem` continues a sentence that its name begins. */
  def damaged(file: Path, problem: String): SparkException = {
    val payload = Map("file" -> file.toUri.toString, "problem" -> problem)
    KernelError(KernelError.LogDamaged, s"${file.toUri} $problem", payload)
  }

  /** The log has lost batches that a table has not read: it begins after the batch `upto`. */
  def pruned(log: Path, upto: Long, needed: Long): SparkException = {
    val payload = Map("log" -> log.toUri.toString, "upto" -> upto.toString, "needed" -> needed.toString)
    KernelError(KernelError.LogPruned, s"${log.toUri} begins after batch $upto, needed $needed", payload)
  }
}
