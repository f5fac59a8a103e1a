package org.apache.spark.sql.keyfold.rows.side_output

/**
 * The kinds of reasons for which rows are rejected: a reason without the row's own values. Rejected rows are
 * counted by these, so that a million of them are a few lines.
 */
object RejectionKind {
  private val ownValues = "\"[^\"]*\"|'[^']*'|[+-]?\\d[\\w.:+-]*".r

  /** The reason without what is quoted, numbers and times. */
  def of(reason: String): String = ownValues.replaceAllIn(reason, "...")
}
