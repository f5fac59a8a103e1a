package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What is packed into one value comes back as it was. */
class StatePackingSuite extends munit.FunSuite {
  private val numbers = new StructType().add(InternalColumns.Start, LongType)
    .add("l", LongType).add("i", IntegerType).add("s", ShortType)
    .add("b", ByteType).add("t", BooleanType).add("d", DoubleType).add("f", FloatType).add("day", DateType)

  private def values(chance: Random, start: Long): Array[Any] = {
    def some(v: Any): Any = if (chance.nextInt(4) == 0) null else v
    val doubles = Seq(chance.nextGaussian(), Double.NaN, -0.0, Double.NegativeInfinity)
    Array(start, some(chance.nextLong()), some(chance.nextInt()), some(chance.nextInt().toShort),
      some(chance.nextInt().toByte), some(chance.nextBoolean()), some(doubles(chance.nextInt(4))),
      some(chance.nextFloat()), some(chance.nextInt(40000)))
  }
  private def row(schema: StructType, of: Array[Any]): InternalRow =
    UnsafeProjection.create(schema)(new GenericInternalRow(of)).copy()

  /** Through the bytes of a row, as the state store keeps it. */
  private def through(packing: StatePacking, states: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val schema = new StructType().add("packed", packing.dataType)
    packing.unpack(row(schema, Array(packing.pack(states))), 0)
  }

  test("columns come back bit by bit: nulls, negative zero, NaN, starts in any order") {
    val chance = new Random(3)
    for (length <- Seq(0, 1, 2, 63, 64, 65, 200)) {
      val states = ArrayBuffer.fill(length)(row(numbers, values(chance, chance.nextLong())))
      assertEquals(through(ColumnPacking(numbers), states).toList, states.toList)
    }
  }

  test("structs come back with texts and arrays") {
    val schema =
      new StructType().add(InternalColumns.Start, LongType).add("text", StringType).add("l", LongType)
    val states = ArrayBuffer.tabulate[InternalRow](50) { n =>
      val text = if (n % 3 == 0) null else UTF8String.fromString("ä" * n)
      row(schema, Array(n.toLong, text, -n.toLong))
    }
    val back = through(StructPacking(schema), states).map(r => UnsafeProjection.create(schema)(r).copy())
    assertEquals(back.toList, states.toList.map(_.asInstanceOf[UnsafeRow]))
  }
}
