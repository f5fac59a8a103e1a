package org.apache.spark.sql.keyfold.messages

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer

import scala.jdk.CollectionConverters._

import org.apache.avro.Schema
import org.apache.avro.Schema.Type
import org.apache.avro.io.{BinaryEncoder, EncoderFactory}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, SpecializedGetters, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._

/**
 * A struct as an Avro record in Confluent's wire format: a zero byte, the id of the schema in the registry,
 * the record. `schema` is `AvroSchema` of the struct.
 */
case class AvroMessage(child: Expression, schema: String, id: Int)
    extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BinaryType
  override def nullSafeEval(row: Any): Any = encoder.encode(row.asInstanceOf[InternalRow])
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)

  @transient private lazy val encoder = {
    val header = ByteBuffer.allocate(AvroDecoder.HeaderBytes).put(0: Byte).putInt(id).array
    new AvroEncoder(SchemaRegistry.parsed(schema), child.dataType.asInstanceOf[StructType], header)
  }
}

/** Encodes rows, one by one; each begins with `header`. */
private class AvroEncoder(schema: Schema, struct: StructType, header: Array[Byte]) {
  private val write = AvroEncoder.record(schema, struct)
  private val bytes = new ByteArrayOutputStream
  private val encoder = EncoderFactory.get().directBinaryEncoder(bytes, null)

  def encode(row: InternalRow): Array[Byte] = {
    bytes.reset()
    bytes.write(header)
    write(row, encoder)
    bytes.toByteArray
  }
}

private object AvroEncoder {
  /** Writes the value at a place of a row or an array. */
  type Writer = (SpecializedGetters, Int, BinaryEncoder) => Unit

  def record(schema: Schema, struct: StructType): (InternalRow, BinaryEncoder) => Unit = {
    val fields = schema.getFields.asScala.zip(struct).map { case (f, s) => writer(f.schema, s.dataType) }
      .toArray
    (row, out) => {
      var i = 0
      while (i < fields.length) { fields(i)(row, i, out); i += 1 }
    }
  }

  private def writer(schema: Schema, kind: DataType): Writer =
    if (schema.getType == Type.UNION) {
      // `AvroSchema` has null first.
      val some = value(schema.getTypes.get(1), kind)
      (in, i, out) =>
        if (in.isNullAt(i)) out.writeIndex(0) else { out.writeIndex(1); some(in, i, out) }
    } else value(schema, kind)

  private def value(schema: Schema, kind: DataType): Writer = kind match {
    case BooleanType => (in, i, out) => out.writeBoolean(in.getBoolean(i))
    case ByteType => (in, i, out) => out.writeInt(in.getByte(i).toInt)
    case ShortType => (in, i, out) => out.writeInt(in.getShort(i).toInt)
    case IntegerType | DateType | _: YearMonthIntervalType => (in, i, out) => out.writeInt(in.getInt(i))
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType =>
      (in, i, out) => out.writeLong(in.getLong(i))
    case FloatType => (in, i, out) => out.writeFloat(in.getFloat(i))
    case DoubleType => (in, i, out) => out.writeDouble(in.getDouble(i))
    case _: StringType => (in, i, out) => out.writeBytes(in.getUTF8String(i).getBytes)
    case BinaryType => (in, i, out) => out.writeBytes(in.getBinary(i))
    case d: DecimalType => (in, i, out) =>
      out.writeBytes(in.getDecimal(i, d.precision, d.scale).toJavaBigDecimal.unscaledValue.toByteArray)
    case a: ArrayType => array(schema, a)
    case m: MapType => map(schema, m)
    case s: StructType =>
      val inner = record(schema, s)
      (in, i, out) => inner(in.getStruct(i, s.length), out)
  }

  private def array(schema: Schema, kind: ArrayType): Writer = {
    val item = writer(schema.getElementType, kind.elementType)
    (in, i, out) => {
      val items = in.getArray(i)
      out.writeArrayStart()
      out.setItemCount(items.numElements)
      for (n <- 0 until items.numElements) { out.startItem(); item(items, n, out) }
      out.writeArrayEnd()
    }
  }

  private def map(schema: Schema, kind: MapType): Writer = {
    val item = writer(schema.getValueType, kind.valueType)
    (in, i, out) => {
      val (keys, values) = (in.getMap(i).keyArray, in.getMap(i).valueArray)
      out.writeMapStart()
      out.setItemCount(keys.numElements)
      for (n <- 0 until keys.numElements) {
        out.startItem()
        out.writeBytes(keys.getUTF8String(n).getBytes)
        item(values, n, out)
      }
      out.writeMapEnd()
    }
  }
}
