package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.SparkThrowable

/**
 * An expression that the kernel can't take, with the reason; Python turns it into an error that names the
 * user's line.
 */
class RefusedException(message: String) extends IllegalArgumentException(message)

/** An expression that reads the batch's timestamp: Python then plans the table again with `Now`. */
class ClockNeededException extends RefusedException("rows have no timestamp of their batch here")
    with SparkThrowable {
  override def getCondition: String = KernelError.NeedsClock
}
