package org.apache.spark.sql.keyfold.expressions

/**
 * An expression that the kernel can't take, with the reason; Python turns it into an error that names the
 * user's line.
 */
class RefusedException(message: String) extends IllegalArgumentException(message)
