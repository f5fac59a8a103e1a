package org.apache.spark.sql.keyfold.log

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.keyfold.spark.formats.SparkParquet
import org.apache.spark.sql.types._

/** Rows that a task keeps for the driver. */
class RowBufferSuite extends munit.FunSuite {
  test("rows are kept as they were, though each is written to the same buffer") {
    val schema = new StructType().add("n", LongType)
    val project = UnsafeProjection.create(schema)
    val format = new SparkParquet(schema, Map.empty, dictionaries = false)
    val buffer = new RowBuffer("change", format, "file:///nowhere", "part-change-00000-0.parquet")
    (1L to 5L).foreach(n => buffer.add(project(InternalRow(n))))
    val sent = buffer.close()
    assertEquals(RowBuffer.rows(sent.few, format).map(_.getLong(0)).toList, List(1L, 2L, 3L, 4L, 5L))
    assertEquals(sent.part, None)
  }
}
