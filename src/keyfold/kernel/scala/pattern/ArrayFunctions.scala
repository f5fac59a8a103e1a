package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.RefusedException

/** `array_sum` and `array_avg`, for the columns of a step's rows: Spark has no short form of either. */
object ArrayFunctions {
  private val definitions = Map(
    "array_sum" -> "aggregate(filter(x, v -> v is not null), 0D, (s, v) -> s + v)",
    "array_avg" -> """aggregate(filter(x, v -> v is not null), named_struct('s', 0D, 'n', 0),
      (a, v) -> named_struct('s', a.s + v, 'n', a.n + 1), a -> a.s / nullif(a.n, 0))""")

  /** Registers the functions; one of the user's with the same name takes precedence. */
  def register(spark: SparkSession): Unit = definitions.foreach { case (name, definition) =>
    if (!spark.sessionState.catalog.functionExists(FunctionIdentifier(name))) {
      val body = spark.sessionState.sqlParser.parseExpression(definition)
      spark.sessionState.functionRegistry.createOrReplaceTempFunction(name, {
        case Seq(x) => body.transform { case UnresolvedAttribute(Seq("x")) => x }
        case _ => throw new RefusedException(s"$name takes one array")
      }, "scala_udf")
    }
  }
}
