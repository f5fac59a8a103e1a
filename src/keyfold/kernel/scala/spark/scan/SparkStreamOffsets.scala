package org.apache.spark.sql.keyfold.spark.scan

import java.util.{Collection => JCollection, Map => JMap}
import java.util.concurrent.Future

import scala.jdk.CollectionConverters._
import scala.language.reflectiveCalls

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.SupportsRead
import org.apache.spark.sql.connector.read.streaming.{Offset, SparkDataStream, SupportsAdmissionControl}

/**
 * The first and the last offsets of a stream of Kafka, as its source writes them, and the ids of their
 * topics; no topic at all if none matches a pattern.
 */
case class SparkStreamOffsets(first: String, last: String, ids: Map[String, String])

/** What the source that Spark makes of a stream knows of its topics, asked for without a query. */
object SparkStreamOffsets {
  /** The stream of topics that a leaf of a plan reads, named by an option that Spark's source ignores. */
  def stream(leaf: LogicalPlan): Option[String] = leaf match {
    case relation: StreamingRelationV2 => Option(relation.extraOptions.get(StreamOption))
    case _ => None
  }

  /** As engine/sources/kafka.py sets it. */
  private val StreamOption = "keyfold.stream"

  def apply(plan: LogicalPlan, directory: String): SparkStreamOffsets = {
    val relation = plan.collectFirst { case r: StreamingRelationV2 => r }.get
    val scan = relation.table.asInstanceOf[SupportsRead].newScanBuilder(relation.extraOptions).build()
    val stream = scan.toMicroBatchStream(directory)
    try {
      val first = stream.initialOffset()
      val last = stream match {
        case s: SupportsAdmissionControl => s.latestOffset(first, s.getDefaultReadLimit)
        case other => other.latestOffset()
      }
      SparkStreamOffsets(first.json, Option(last).getOrElse(first).json, ids(stream, first))
    } finally stream.stop()
  }

  /**
   * The id of each topic; none where the brokers have no ids, or the source has no such client. The client is
   * loaded with the connector, after the kernel: its methods are looked up when they are called.
   */
  private def ids(stream: SparkDataStream, offsets: Offset): Map[String, String] = {
    val topics = new ObjectMapper().readTree(offsets.json).fieldNames.asScala.toSeq
    val reader = stream.asInstanceOf[{ def kafkaOffsetReader(): AnyRef }].kafkaOffsetReader()
    if (topics.isEmpty || !reader.getClass.getMethods.exists(_.getName == "admin")) return Map.empty
    val admin = reader.asInstanceOf[{ def admin(): Admin }].admin()
    val found = admin.describeTopics(topics.asJava).allTopicNames().get()
    found.asScala.map { case (name, topic) => name -> topic.topicId().toString }.toMap.filter(_._2 != NoId)
  }

  /** How Kafka writes that a topic has no id: in base 64, all zeros. */
  private val NoId = "A" * 22

  private type Admin = AnyRef { def describeTopics(names: JCollection[String]): Described }
  private type Described = AnyRef { def allTopicNames(): Future[JMap[String, Topic]] }
  private type Topic = AnyRef { def topicId(): AnyRef }
}
