package org.apache.spark.sql.keyfold.messages

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow

/**
 * A number as Kafka's own serializers write it, in one column: `width` bytes, the first the most significant.
 */
private class NumberDecoder(name: String, width: Int, read: ByteBuffer => Any)
    extends ValueFormat with MessageDecoder {
  override def decoder(declared: MessageFormat): MessageDecoder = this

  override def decode(value: Array[Byte]): InternalRow =
    if (value.length == width) InternalRow(read(ByteBuffer.wrap(value)))
    else throw BadMessage("does not parse", Some(s"${value.length} bytes, and a $name has $width"))
}

private object NumberDecoder {
  val byName: Map[String, ValueFormat] = Seq[(String, Int, ByteBuffer => Any)](
    ("short", 2, _.getShort),
    ("int", 4, _.getInt),
    ("long", 8, _.getLong),
    ("float", 4, _.getFloat),
    ("double", 8, _.getDouble)
  ).map { case (name, width, read) => name -> new NumberDecoder(name, width, read) }.toMap
}
