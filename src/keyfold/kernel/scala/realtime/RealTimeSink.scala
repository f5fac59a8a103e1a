package org.apache.spark.sql.keyfold.realtime

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsWrite, Table, TableCapability}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend
import org.apache.spark.sql.keyfold.log.{BatchParts, PartFormats, TaskLog, TaskOutput, WrittenBatch}
import org.apache.spark.sql.keyfold.spark.plans.SparkRealTimeQuery
import org.apache.spark.sql.types.StructType

/** What the driver says of a batch that begins: where its parts go, and the headers of its messages. */
case class BegunBatch(directory: String, keepChanges: Boolean, headers: Map[String, String])

/** What the driver does around a batch of a real-time query. */
trait BatchEvents {
  /** Before the tasks of a batch start: the one before it is committed. */
  def begin(batch: Long): BegunBatch
  /** When its tasks are done, and before Spark commits it. */
  def prepared(batch: Long, written: WrittenBatch): Unit
}

/**
 * Where the changes of a real-time query go: its tasks send each change as a message at once, and write it to
 * a part of the table's log beside it. What a batch has written counts once Spark has committed the batch.
 */
class RealTimeSink(df: DataFrame, events: BatchEvents, topics: Seq[MessageTopic])
    extends Table with SupportsWrite {
  private val formats = PartFormats(df)
  private val layout = MessageLayout(df.schema)

  override def name(): String = "keyfold"
  override def schema(): StructType = new StructType()
  override def capabilities(): java.util.Set[TableCapability] =
    Set(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA).asJava

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    new WriteBuilder with SupportsStreamingUpdateAsAppend {
      override def build(): Write = new Write {
        override def toStreaming: StreamingWrite = new Batch
      }
    }

  /** The write of one batch. */
  private class Batch extends StreamingWrite {
    private var begun: BegunBatch = _

    override def useCommitCoordinator(): Boolean = false

    override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory = {
      begun = events.begin(SparkRealTimeQuery.batch)
      RealTimeWriters(formats, begun, layout, topics.map(_.writers(info)))
    }

    override def commit(batch: Long, messages: Array[WriterCommitMessage]): Unit = {
      val outputs = messages.toSeq.collect { case TaskDone(output) => output }
      events.prepared(batch, new BatchParts(formats, begun.directory, outputs).written)
    }

    /** Nothing that was written is listed by a manifest. */
    override def abort(batch: Long, messages: Array[WriterCommitMessage]): Unit = ()
  }
}

private case class TaskDone(output: TaskOutput) extends WriterCommitMessage

private case class RealTimeWriters(
    formats: PartFormats,
    begun: BegunBatch,
    layout: MessageLayout,
    topics: Seq[StreamingDataWriterFactory]) extends StreamingDataWriterFactory {
  override def createWriter(partition: Int, task: Long, batch: Long): DataWriter[InternalRow] = {
    val log = new TaskLog(formats, begun.directory, begun.keepChanges, partition, task)
    val messages = new MessageRows(layout, begun.headers)
    new RealTimeWriter(log, messages, topics.map(_.createWriter(partition, task, batch)))
  }
}

/** Sends and records the rows of one task, one by one. */
private class RealTimeWriter(log: TaskLog, messages: MessageRows, topics: Seq[DataWriter[InternalRow]])
    extends DataWriter[InternalRow] {
  override def write(row: InternalRow): Unit = {
    if (messages.isChange(row)) {
      val message = messages(row)
      topics.foreach(_.write(message))
    }
    log.add(row)
  }

  /** All messages are delivered before the batch can be committed. */
  override def commit(): WriterCommitMessage = {
    topics.foreach(_.commit())
    TaskDone(log.close())
  }

  override def abort(): Unit = {
    log.discard()
    topics.foreach(_.abort())
  }

  override def close(): Unit = topics.foreach(_.close())
}
