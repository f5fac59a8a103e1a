package org.apache.spark.sql.keyfold.rows.side_output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.MessageOrigin
import org.apache.spark.unsafe.types.UTF8String

/** Where a rejected row was read. */
sealed trait RowLocation {
  /** For people. */
  def words: Seq[String]
}

/** A file, and the row's line, or its first byte in a later part of a file. */
case class FileLocation(file: String, line: Option[Long] = None, byte: Option[Long] = None)
    extends RowLocation {
  override def words: Seq[String] =
    Seq(s"file $file") ++ line.map(n => s"line $n") ++ byte.map(n => s"byte $n")
}

/** A message of Kafka. */
case class MessageLocation(topic: UTF8String, partition: Int, offset: Long) extends RowLocation {
  override def words: Seq[String] = Seq(s"topic $topic", s"partition $partition", s"offset $offset")
}

object MessageLocation {
  /** From what `InternalColumns.Message` has. */
  def apply(origin: InternalRow): MessageLocation = MessageLocation(
    MessageOrigin.topic(origin).copy(), MessageOrigin.partition(origin), MessageOrigin.offset(origin))
}
