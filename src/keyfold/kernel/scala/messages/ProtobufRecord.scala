package org.apache.spark.sql.keyfold.messages

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.keyfold.spark.formats.SparkProtobuf.{Bytes, Descriptor, EnumValue, Field, Parsed}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Reads messages of one type as rows: fields by name. A field that is not set is null, or has its default
 * where the type can't tell the two apart.
 */
private class ProtobufRecord(fields: Array[Parsed => Any]) {
  def read(message: Parsed): InternalRow = new GenericInternalRow(fields.map(_(message)))
}

private object ProtobufRecord {
  private type Reader = Any => Any

  def apply(message: Descriptor, wanted: StructType): ProtobufRecord = new ProtobufRecord(
    wanted.fields.map { f =>
      val field = message.getFields.asScala.find(_.getName.equalsIgnoreCase(f.name)).getOrElse(
        throw new RefusedException(s"${message.getFullName} has no field ${f.name}; it has: " +
          message.getFields.asScala.map(_.getName).mkString(", ")))
      val read = of(field, f.dataType)
      (message: Parsed) =>
        if (field.hasPresence && !message.hasField(field)) null else read(message.getField(field))
    })

  private def of(field: Field, wanted: DataType): Reader = wanted match {
    case MapType(k, v, _) if field.isMapField =>
      val entry = field.getMessageType
      val (key, value) = (entry.findFieldByName("key"), entry.findFieldByName("value"))
      val (readKey, readValue) = (single(key, k), single(value, v))
      found => {
        // Of equal keys the last one counts.
        val entries = found.asInstanceOf[java.util.List[Parsed]].asScala
          .map(e => readKey(e.getField(key)) -> readValue(e.getField(value)))
        val map = scala.collection.mutable.LinkedHashMap.from(entries)
        new ArrayBasedMapData(
          new GenericArrayData(map.keys.toArray), new GenericArrayData(map.values.toArray))
      }
    case ArrayType(item, _) if field.isRepeated && !field.isMapField =>
      val read = single(field, item)
      found => new GenericArrayData(found.asInstanceOf[java.util.List[Any]].asScala.map(read).toArray[Any])
    case _ if field.isRepeated => throw mismatch(field, wanted)
    case _ => single(field, wanted)
  }

  private def single(field: Field, wanted: DataType): Reader = (field.getType.name, wanted) match {
    case ("BOOL", BooleanType) => identity
    case ("INT32" | "SINT32" | "SFIXED32", IntegerType) => identity
    case ("INT32" | "SINT32" | "SFIXED32", LongType) => _.asInstanceOf[Int].toLong
    case ("UINT32" | "FIXED32", LongType) => v => Integer.toUnsignedLong(v.asInstanceOf[Int])
    case ("INT64" | "SINT64" | "SFIXED64", LongType) => identity
    case ("UINT64" | "FIXED64", d: DecimalType) if d.scale == 0 && d.precision >= 20 =>
      v => Decimal(new java.math.BigDecimal(java.lang.Long.toUnsignedString(v.asInstanceOf[Long])))
        .toPrecision(d.precision, 0)
    case ("UINT64" | "FIXED64", LongType) => v =>
      if (v.asInstanceOf[Long] >= 0) v else {
        val shown = java.lang.Long.toUnsignedString(v.asInstanceOf[Long])
        throw BadMessage("does not parse", Some(s"${field.getName} is $shown, too large for a bigint"))
      }
    case ("FLOAT", FloatType) | ("DOUBLE", DoubleType) => identity
    case ("FLOAT", DoubleType) => _.asInstanceOf[Float].toDouble
    case ("STRING", _: StringType) => v => UTF8String.fromString(v.asInstanceOf[String])
    case ("BYTES", BinaryType) => _.asInstanceOf[Bytes].toByteArray
    case ("ENUM", _: StringType) => v => UTF8String.fromString(v.asInstanceOf[EnumValue].getName)
    case ("ENUM", IntegerType) => _.asInstanceOf[EnumValue].getNumber
    case ("MESSAGE" | "GROUP", _) => message(field, wanted)
    case _ => throw mismatch(field, wanted)
  }

  private def message(field: Field, wanted: DataType): Reader = {
    val kind = field.getMessageType
    (kind.getFullName, wanted) match {
      case ("google.protobuf.Timestamp", TimestampType) =>
        val (seconds, nanos) = (kind.findFieldByName("seconds"), kind.findFieldByName("nanos"))
        v => {
          val moment = v.asInstanceOf[Parsed]
          try Math.addExact(
            Math.multiplyExact(moment.getField(seconds).asInstanceOf[Long], 1000000L),
            (moment.getField(nanos).asInstanceOf[Int] / 1000).toLong)
          catch { case _: ArithmeticException =>
            throw BadMessage("does not parse", Some(s"${field.getName} is beyond all timestamps"))
          }
        }
      // Google's wrappers of single values, which tell an absent value from a default.
      case (name, _) if name.startsWith("google.protobuf.") && name.endsWith("Value") &&
          !wanted.isInstanceOf[StructType] && kind.findFieldByName("value") != null =>
        val value = kind.findFieldByName("value")
        val read = single(value, wanted)
        v => read(v.asInstanceOf[Parsed].getField(value))
      case (_, s: StructType) =>
        val inner = apply(kind, s)
        v => inner.read(v.asInstanceOf[Parsed])
      case _ => throw mismatch(field, wanted)
    }
  }

  private def mismatch(field: Field, wanted: DataType): RefusedException = {
    val repeated = if (field.isRepeated) "repeated " else ""
    val kind = if (field.getType.name == "MESSAGE") field.getMessageType.getFullName
      else field.getType.name.toLowerCase
    new RefusedException(s"field ${field.getFullName} is $repeated$kind, which can't be read as " +
      wanted.sql.toLowerCase)
  }
}
