package org.apache.spark.sql.keyfold.realtime

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.io.ObjectStreamClass

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory, Scan,
  ScanBuilder}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * How far a task of a real-time batch has read. Tasks return it to the driver, which reads their results with
 * the JVM's own class loader; that does not know the classes of a connector that was added to a session. So
 * it travels as bytes, and is read where the connector is known.
 */
class DetachedOffset(bytes: Array[Byte]) extends PartitionOffset {
  def attached(loader: ClassLoader): PartitionOffset = {
    val in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
      override def resolveClass(found: ObjectStreamClass): Class[_] =
        Class.forName(found.getName, false, loader)
    }
    in.readObject().asInstanceOf[PartitionOffset]
  }
}

object DetachedOffset {
  def apply(offset: PartitionOffset): DetachedOffset = {
    val out = new ByteArrayOutputStream
    val objects = new ObjectOutputStream(out)
    objects.writeObject(offset)
    objects.close()
    new DetachedOffset(out.toByteArray)
  }

  /** The plan with every source of messages wrapped so that its tasks return such offsets. */
  def in(plan: LogicalPlan): LogicalPlan = plan.transform {
    case r: StreamingRelationV2 =>
      r.copy(table = new DetachedTable(r.table.asInstanceOf[Table with SupportsRead]))
  }
}

private class DetachedTable(inner: Table with SupportsRead) extends Table with SupportsRead {
  override def name(): String = inner.name()
  override def schema(): StructType = inner.schema()
  override def capabilities(): java.util.Set[TableCapability] = inner.capabilities()
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    val scan = inner.newScanBuilder(options).build()
    () => new Scan {
      override def readSchema(): StructType = scan.readSchema()
      override def description(): String = scan.description()
      override def toMicroBatchStream(location: String): MicroBatchStream =
        new DetachedStream(scan.toMicroBatchStream(location).asInstanceOf[DetachedStream.Inner])
    }
  }
}

private object DetachedStream {
  type Inner = MicroBatchStream
    with SupportsRealTimeMode with SupportsAdmissionControl with ReportsSourceMetrics
}

private class DetachedStream(inner: DetachedStream.Inner)
    extends MicroBatchStream
    with SupportsRealTimeMode with SupportsAdmissionControl with ReportsSourceMetrics {
  override def mergeOffsets(offsets: Array[PartitionOffset]): Offset = {
    val loader = inner.getClass.getClassLoader
    inner.mergeOffsets(offsets.map { case o: DetachedOffset => o.attached(loader); case other => other })
  }

  override def createReaderFactory(): PartitionReaderFactory = DetachedReaders(inner.createReaderFactory())
  override def planInputPartitions(start: Offset): Array[InputPartition] = inner.planInputPartitions(start)
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    inner.planInputPartitions(start, end)
  override def prepareForRealTimeMode(): Unit = inner.prepareForRealTimeMode()
  override def getDefaultReadLimit: ReadLimit = inner.getDefaultReadLimit
  override def latestOffset(): Offset = inner.latestOffset()
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = inner.latestOffset(start, limit)
  override def reportLatestOffset(): Offset = inner.reportLatestOffset()
  override def initialOffset(): Offset = inner.initialOffset()
  override def deserializeOffset(json: String): Offset = inner.deserializeOffset(json)
  override def commit(end: Offset): Unit = inner.commit(end)
  override def stop(): Unit = inner.stop()
  override def metrics(consumed: java.util.Optional[Offset]): java.util.Map[String, String] =
    inner.metrics(consumed)
  override def toString: String = inner.toString
}

private case class DetachedReaders(inner: PartitionReaderFactory) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new DetachedReader(inner.createReader(partition).asInstanceOf[SupportsRealTimeRead[InternalRow]])
}

private class DetachedReader(inner: SupportsRealTimeRead[InternalRow])
    extends SupportsRealTimeRead[InternalRow] {
  override def getOffset: PartitionOffset = DetachedOffset(inner.getOffset)
  override def nextWithTimeout(start: java.lang.Long, timeout: java.lang.Long): RecordStatus =
    inner.nextWithTimeout(start, timeout)
  override def next(): Boolean = inner.next()
  override def get(): InternalRow = inner.get()
  override def close(): Unit = inner.close()
  override def currentMetricsValues(): Array[CustomTaskMetric] = inner.currentMetricsValues()
}
