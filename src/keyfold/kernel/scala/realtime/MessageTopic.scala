package org.apache.spark.sql.keyfold.realtime

import org.apache.spark.sql.connector.catalog.{SupportsWrite, TableProvider}
import org.apache.spark.sql.connector.write.{LogicalWriteInfoImpl, PhysicalWriteInfo}
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A topic that tasks write messages to, by Spark's own connector; the kernel can't name its classes, and
 * knows it as a source like any other. `options`: the topic, the servers and settings of Kafka's client.
 */
class MessageTopic(provider: TableProvider, options: java.util.Map[String, String]) {
  private val write: StreamingWrite = {
    val table = provider.getTable(null, Array.empty, options).asInstanceOf[SupportsWrite]
    val given = new CaseInsensitiveStringMap(options)
    table.newWriteBuilder(LogicalWriteInfoImpl("keyfold", MessageLayout.schema, given)).build().toStreaming
  }

  /** The writers of a batch's tasks. */
  def writers(info: PhysicalWriteInfo): StreamingDataWriterFactory = write.createStreamingWriterFactory(info)
}
