package org.apache.spark.sql.keyfold.spark.state_store

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, StatefulOpClusteredDistribution}
import org.apache.spark.sql.internal.SQLConf

/**
 * The partitions of a query's state. Their number is fixed in the offset log; when a batch is planned, Spark
 * has put that number into its session's settings, beside the number of shuffle partitions that a restart
 * may have changed.
 */
object SparkStatePartitions {
  def number(conf: SQLConf): Int =
    conf.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).getOrElse(conf.numShufflePartitions)

  /** Rows of equal `keys` in the partition that has their state. */
  def by(keys: Seq[Expression], conf: SQLConf): Distribution =
    StatefulOpClusteredDistribution(keys, number(conf))
}
