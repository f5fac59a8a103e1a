package org.apache.spark.sql.keyfold.spark.scan

import org.apache.spark.Partition
import org.apache.spark.rdd.UnionPartition
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/** The messages that a task reads: those of a partition of a topic, from an offset on. */
case class MessageRange(topic: String, partition: Int, from: Long)

/** The partition of a topic that a task reads; the kernel can't name the classes of Spark's Kafka source. */
object SparkInputMessages {
  def of(split: Partition): Option[MessageRange] = split match {
    case union: UnionPartition[_] => of(union.parentPartition)
    case source: DataSourceRDDPartition => source.inputPartition.flatMap(range)
    case _ => None
  }

  private def range(input: AnyRef): Option[MessageRange] =
    if (input.getClass.getSimpleName != "KafkaBatchInputPartition") None
    else {
      val range = call(input, "offsetRange")
      val Seq(topic, partition, from) = Seq("topic", "partition", "fromOffset").map(call(range, _).toString)
      Some(MessageRange(topic, partition.toInt, from.toLong))
    }

  private def call(of: AnyRef, name: String): AnyRef = of.getClass.getMethod(name).invoke(of)
}
