package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * An expression that the kernel can't take, with the reason; Python turns it into an error that names the
 * user's line.
 */
class RefusedException(message: String) extends IllegalArgumentException(message)
