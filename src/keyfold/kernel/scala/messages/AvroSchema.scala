package org.apache.spark.sql.keyfold.messages

import org.apache.avro.{AvroRuntimeException, JsonProperties, LogicalTypes, Schema, SchemaBuilder}

import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.types._

/**
 * The Avro schema of a table's rows. The first `keys` columns are never null; all others may be, with null as
 * the default, so that a column can be added or left out later.
 */
object AvroSchema {
  def apply(struct: StructType, name: String, namespace: String, keys: Int): Schema =
    try record(struct, name, namespace, keys) catch {
      // A name that Avro does not allow, such as one with a space.
      case e: AvroRuntimeException => throw new RefusedException(s"Avro has no such schema: ${e.getMessage}")
    }

  private def record(struct: StructType, name: String, namespace: String, keys: Int): Schema = {
    val fields = new java.util.ArrayList[Schema.Field]
    struct.fields.zipWithIndex.foreach { case (f, i) =>
      // Records are known by their names, so that each needs one of its own.
      val kind = of(f.dataType, f.name, s"${name}_${f.name}", namespace)
      fields.add(if (i < keys) new Schema.Field(f.name, kind)
        else new Schema.Field(f.name, optional(kind), null, JsonProperties.NULL_VALUE))
    }
    Schema.createRecord(name, null, namespace, false, fields)
  }

  private def optional(kind: Schema) = Schema.createUnion(Schema.create(Schema.Type.NULL), kind)

  private def of(kind: DataType, column: String, name: String, namespace: String): Schema = {
    val simple = SchemaBuilder.builder()
    kind match {
      case BooleanType => simple.booleanType
      case ByteType | ShortType | IntegerType | _: YearMonthIntervalType => simple.intType
      case LongType | _: DayTimeIntervalType => simple.longType
      case FloatType => simple.floatType
      case DoubleType => simple.doubleType
      case _: StringType => simple.stringType
      case BinaryType => simple.bytesType
      case d: DecimalType => LogicalTypes.decimal(d.precision, d.scale).addToSchema(simple.bytesType)
      case DateType => LogicalTypes.date.addToSchema(simple.intType)
      case TimestampType => LogicalTypes.timestampMicros.addToSchema(simple.longType)
      case TimestampNTZType => LogicalTypes.localTimestampMicros.addToSchema(simple.longType)
      case a: ArrayType => Schema.createArray(optional(of(a.elementType, column, name, namespace)))
      case MapType(_: StringType, v, _) => Schema.createMap(optional(of(v, column, name, namespace)))
      case s: StructType => record(s, name, namespace, keys = 0)
      case other => throw new RefusedException(
        s"column $column is ${other.sql.toLowerCase}, for which Avro has no type; cast it to another")
    }
  }
}
