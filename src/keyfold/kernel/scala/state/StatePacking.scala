package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.bitset.BitSetMethods

/** Packs several states of a key into one stored value. */
sealed trait StatePacking extends Serializable {
  def dataType: DataType
  def pack(states: ArrayBuffer[InternalRow]): Any
  def unpack(row: InternalRow, at: Int): ArrayBuffer[InternalRow]
}

/** An array of structs, for states of any types. */
case class StructPacking(schema: StructType) extends StatePacking {
  override def dataType: DataType = ArrayType(schema, containsNull = false)
  override def pack(states: ArrayBuffer[InternalRow]): Any = new GenericArrayData(states.toArray[Any])
  override def unpack(row: InternalRow, at: Int): ArrayBuffer[InternalRow] = {
    val a = row.getArray(at)
    ArrayBuffer.tabulate(a.numElements())(a.getStruct(_, schema.length))
  }
}

/**
 * An array per field, for states whose fields all have a fixed width. It takes two thirds of the bytes of
 * structs, and RocksDB compresses equal values side by side. Values are copied bit by bit between the slots
 * of rows and of arrays; starts are stored as differences, which are all equal for panes.
 */
case class ColumnPacking(schema: StructType) extends StatePacking {
  private val starts = schema.fieldIndex(InternalColumns.Start)
  private val sizes = schema.map(_.dataType.defaultSize).toArray
  private val header = UnsafeRow.calculateBitSetWidthInBytes(schema.length)
  override def dataType: DataType =
    StructType(schema.map(f => StructField(f.name, ArrayType(f.dataType, containsNull = true))))

  override def pack(states: ArrayBuffer[InternalRow]): Any =
    new GenericInternalRow(Array.tabulate[Any](sizes.length)(column(states, _)))

  private def column(states: ArrayBuffer[InternalRow], field: Int): UnsafeArrayData = {
    val (n, size) = (states.length, sizes(field))
    val first = UnsafeArrayData.calculateHeaderPortionInBytes(n)
    val bytes = new Array[Byte](first + ByteArrayMethods.roundNumberOfBytesToNearestWord(n * size))
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET, n)
    var i = 0
    var before = 0L
    while (i < n) {
      val row = states(i)
      val to = Platform.BYTE_ARRAY_OFFSET + first + i * size
      if (row.isNullAt(field)) BitSetMethods.set(bytes, Platform.BYTE_ARRAY_OFFSET + 8, i)
      else size match {
        case 8 =>
          Platform.putLong(bytes, to, row.getLong(field) - before)
          if (field == starts) before = row.getLong(field)
        case 4 => Platform.putInt(bytes, to, row.getInt(field))
        case 2 => Platform.putShort(bytes, to, row.getShort(field))
        case 1 => Platform.putByte(bytes, to, row.getByte(field))
      }
      i += 1
    }
    val array = new UnsafeArrayData
    array.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length)
    array
  }

  override def unpack(row: InternalRow, at: Int): ArrayBuffer[InternalRow] = {
    val fields = row.getStruct(at, sizes.length)
    val arrays = Array.tabulate(sizes.length)(fields.getArray)
    val length = header + 8 * sizes.length
    var before = 0L
    ArrayBuffer.tabulate(arrays(0).numElements()) { i =>
      val state = new UnsafeRow(sizes.length)
      state.pointTo(new Array[Byte](length), length)
      var f = 0
      while (f < sizes.length) {
        if (arrays(f).isNullAt(i)) state.setNullAt(f)
        else sizes(f) match {
          case 8 => state.setLong(f, arrays(f).getLong(i))
          case 4 => state.setInt(f, arrays(f).getInt(i))
          case 2 => state.setShort(f, arrays(f).getShort(i))
          case 1 => state.setByte(f, arrays(f).getByte(i))
        }
        f += 1
      }
      before += state.getLong(starts)
      state.setLong(starts, before)
      state
    }
  }
}

object StatePacking {
  /** Whether a value is stored within its slot of a row. */
  private def slot(t: DataType): Boolean = t match {
    case d: DecimalType => d.precision <= Decimal.MAX_LONG_DIGITS
    case other => UnsafeRow.isFixedLength(other)
  }

  def of(fold: AggregateFold): StatePacking =
    if (fold.flat && fold.state.forall(a => slot(a.dataType))) ColumnPacking(fold.schema)
    else StructPacking(fold.schema)
}
