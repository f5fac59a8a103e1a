package org.apache.spark.sql.keyfold.messages

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.avro.generic.GenericDatumReader
import org.apache.avro.io.BinaryDecoder
import org.apache.avro.{LogicalTypes, Schema}
import org.apache.avro.Schema.Type

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Avro's decoder on a message of `length` bytes: no length that a message claims is taken without a look. */
private class BoundedAvro(val decoder: BinaryDecoder, length: Int) {
  /** Elements of an array may have no bytes at all. */
  private val mostItems = math.max(length.toLong, 1L << 16)

  def bytes(): Array[Byte] = fixed(decoder.readLong())

  def fixed(size: Long): Array[Byte] = {
    if (size < 0 || size > length)
      throw BadMessage("does not parse", Some(s"not an Avro record: a length of $size"))
    val found = new Array[Byte](size.toInt)
    decoder.readFixed(found)
    found
  }

  def items(count: Long): Int = {
    if (count < 0 || count > mostItems)
      throw BadMessage("does not parse", Some(s"not an Avro record: $count items"))
    count.toInt
  }
}

/** Reads the records of one schema as rows of another: fields by name, those that are missing are null. */
private class AvroRecord(fields: Array[(BoundedAvro => Any, Int)], width: Int) {
  def read(in: BoundedAvro): InternalRow = {
    val row = new GenericInternalRow(width)
    var i = 0
    while (i < fields.length) {
      val (value, at) = fields(i)
      val found = value(in)
      if (at >= 0) row.update(at, found)
      i += 1
    }
    row
  }
}

private object AvroRecord {
  type Reader = BoundedAvro => Any

  /** A value that is not a record fills the only column. */
  def apply(written: Schema, wanted: StructType): AvroRecord =
    if (written.getType == Type.RECORD || wanted.length != 1) record(written, wanted, "")
    else new AvroRecord(Array((reader(written, wanted.head.dataType, wanted.head.name), 0)), 1)

  private def record(written: Schema, wanted: StructType, path: String): AvroRecord = {
    if (written.getType != Type.RECORD)
      throw BadMessage(s"the Avro schema is not a record but ${written.getType.getName}")
    val fields = written.getFields.asScala.map { field =>
      val at = wanted.fields.indexWhere(_.name.equalsIgnoreCase(field.name))
      if (at < 0) ((in: BoundedAvro) => { skip(field.schema, in); null }: Any, -1)
      else (reader(field.schema, wanted(at).dataType, path + wanted(at).name), at)
    }
    new AvroRecord(fields.toArray, wanted.length)
  }

  /** Reads past a value; by `reader`, so that lengths are looked at. */
  private def skip(schema: Schema, in: BoundedAvro): Unit = schema.getType match {
    case Type.STRING | Type.BYTES => in.bytes()
    case Type.UNION => skip(schema.getTypes.get(in.decoder.readIndex()), in)
    case Type.RECORD => schema.getFields.forEach(f => skip(f.schema, in))
    case _ => GenericDatumReader.skip(schema, in.decoder)
  }

  private def reader(written: Schema, wanted: DataType, path: String): Reader = {
    lazy val logical = Option(written.getLogicalType)
    (written.getType, wanted) match {
      case (Type.UNION, _) => union(written, wanted, path)
      case (Type.NULL, _) => in => { in.decoder.readNull(); null }
      case (Type.RECORD, s: StructType) => record(written, s, s"$path.").read(_)
      case (Type.ARRAY, a: ArrayType) => array(reader(written.getElementType, a.elementType, s"$path[]"))
      case (Type.MAP, MapType(_: StringType, v, _)) => map(reader(written.getValueType, v, s"$path[]"))
      case (Type.STRING, _: StringType) => in => UTF8String.fromBytes(in.bytes())
      case (Type.ENUM, _: StringType) =>
        val names = written.getEnumSymbols.asScala.map(UTF8String.fromString).toArray
        in => names(in.decoder.readEnum())
      case (Type.BYTES | Type.FIXED, d: DecimalType) => logical match {
        case Some(l: LogicalTypes.Decimal) => decimal(written, l.getScale, d, path)
        case _ => throw mismatch(written, wanted, path)
      }
      case (Type.BYTES, BinaryType) => _.bytes()
      case (Type.FIXED, BinaryType) => _.fixed(written.getFixedSize)
      case (Type.BOOLEAN, BooleanType) => _.decoder.readBoolean()
      case (Type.INT, DateType) if logical.exists(_.isInstanceOf[LogicalTypes.Date]) => _.decoder.readInt()
      case (Type.LONG, TimestampType | TimestampNTZType) => timestamp(logical.orNull, written, wanted, path)
      case (Type.INT | Type.LONG | Type.FLOAT | Type.DOUBLE, _) => number(written, wanted, path)
      case _ => throw mismatch(written, wanted, path)
    }
  }

  private def union(written: Schema, wanted: DataType, path: String): Reader = {
    // A branch that does not fit fails the messages that have it, and not the others.
    val branches = written.getTypes.asScala.map { branch =>
      try reader(branch, wanted, path) catch { case bad: BadMessage => (_: BoundedAvro) => throw bad }
    }.toArray
    in => branches(in.decoder.readIndex())(in)
  }

  private def array(item: Reader): Reader = in => {
    val found = mutable.ArrayBuffer.empty[Any]
    var count = in.items(in.decoder.readArrayStart())
    while (count > 0) {
      in.items(found.length.toLong + count)
      for (_ <- 0 until count) found += item(in)
      count = in.items(in.decoder.arrayNext())
    }
    new GenericArrayData(found.toArray)
  }

  private def map(value: Reader): Reader = in => {
    val found = mutable.LinkedHashMap.empty[UTF8String, Any]
    var count = in.items(in.decoder.readMapStart())
    while (count > 0) {
      for (_ <- 0 until count) found.put(UTF8String.fromBytes(in.bytes()), value(in))
      count = in.items(in.decoder.mapNext())
    }
    new ArrayBasedMapData(
      new GenericArrayData(found.keys.toArray[Any]), new GenericArrayData(found.values.toArray))
  }

  private def number(written: Schema, wanted: DataType, path: String): Reader =
    (written.getType, wanted) match {
      case _ if written.getLogicalType != null => throw mismatch(written, wanted, path)
      case (Type.INT, IntegerType) => _.decoder.readInt()
      case (Type.INT, LongType) => _.decoder.readInt().toLong
      case (Type.INT, FloatType) => _.decoder.readInt().toFloat
      case (Type.INT, DoubleType) => _.decoder.readInt().toDouble
      case (Type.LONG, LongType) => _.decoder.readLong()
      case (Type.LONG, FloatType) => _.decoder.readLong().toFloat
      case (Type.LONG, DoubleType) => _.decoder.readLong().toDouble
      case (Type.FLOAT, FloatType) => _.decoder.readFloat()
      case (Type.FLOAT, DoubleType) => _.decoder.readFloat().toDouble
      case (Type.DOUBLE, DoubleType) => _.decoder.readDouble()
      case _ => throw mismatch(written, wanted, path)
    }

  private def timestamp(
      logical: org.apache.avro.LogicalType, written: Schema, wanted: DataType, path: String): Reader =
    logical match {
      case _: LogicalTypes.TimestampMillis | _: LogicalTypes.LocalTimestampMillis =>
        in => Math.multiplyExact(in.decoder.readLong(), 1000L)
      case _: LogicalTypes.TimestampMicros | _: LogicalTypes.LocalTimestampMicros => _.decoder.readLong()
      case _ => throw mismatch(written, wanted, path)
    }

  private def decimal(written: Schema, scale: Int, wanted: DecimalType, path: String): Reader = in => {
    val bytes = if (written.getType == Type.FIXED) in.fixed(written.getFixedSize) else in.bytes()
    if (bytes.isEmpty) throw BadMessage(s"does not parse: column $path: a decimal of no bytes")
    val found = Decimal(new java.math.BigDecimal(new java.math.BigInteger(bytes), scale))
    if (found.changePrecision(wanted.precision, wanted.scale)) found
    else throw BadMessage(
      s"""does not parse: column $path: "$found" is not a valid ${wanted.sql.toLowerCase}""")
  }

  private def mismatch(written: Schema, wanted: DataType, path: String): BadMessage = {
    val logical = Option(written.getLogicalType).fold("")(l => s" (${l.getName})")
    BadMessage(s"does not parse: column $path: an Avro ${written.getType.getName}$logical can't be read as " +
      wanted.sql.toLowerCase)
  }
}
