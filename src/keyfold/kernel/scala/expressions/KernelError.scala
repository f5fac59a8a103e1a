package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.SparkException

/**
 * An error of the kernel's own. Python recognises it by its code, and has what it says from the payload; the
 * text is for logs. One of Spark's own exceptions, since a driver may not have the kernel's classes where it
 * reads a task's failure: the code is its condition, and the payload its parameters.
 */
object KernelError {
  /** A row can't be processed, and rejected rows stop the query: its `reason` and the `row`. */
  val RejectedRow = "KEYFOLD_REJECTED_ROW"
  /** A `file` of a log is not what the log says it is; `problem` continues the sentence. */
  val LogDamaged = "KEYFOLD_LOG_DAMAGED"
  /** A `log` begins after the batch `upto`, and the batch `needed` has not been read. */
  val LogPruned = "KEYFOLD_LOG_PRUNED"
  /** The `files` of a batch that are missing, as a JSON list. */
  val MissingFiles = "KEYFOLD_MISSING_FILES"
  /** A Schema Registry does not answer: the `problem`. */
  val Registry = "KEYFOLD_REGISTRY"
  /** An expression of a migration fails on a `key`, for a `reason`. */
  val FailedMigration = "KEYFOLD_FAILED_MIGRATION"
  /** An expression reads the batch's timestamp, which its rows do not have. */
  val NeedsClock = "KEYFOLD_NEEDS_CLOCK"
  // The texts of these say all there is.
  val LostLog = "KEYFOLD_LOST_LOG"
  val BadDirectory = "KEYFOLD_BAD_DIRECTORY"
  val ForeignFile = "KEYFOLD_FOREIGN_FILE"

  def apply(
      code: String, text: String, payload: Map[String, String] = Map.empty,
      cause: Throwable = null): SparkException =
    new SparkException(s"[$code] $text", cause, Some(code), payload)
}
