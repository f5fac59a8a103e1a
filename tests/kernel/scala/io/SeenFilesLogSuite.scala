package org.apache.spark.sql.execution.keyfold.io

import org.json4s.NoTypeHints
import org.json4s.jackson.Serialization

/** A line of the source log, which is read again after every restart and upgrade. */
class SeenFilesLogSuite extends munit.FunSuite {
  // As Spark's log writes its entries.
  private implicit val formats: org.json4s.Formats = Serialization.formats(NoTypeHints)
  private val line = """{"path":"orders:/a b.json","timestamp":1767225600000,"size":12,"batchId":3}"""
  private val file = SeenFile("orders:/a b.json", 1767225600000L, 12L, 3L)

  test("a planned file is one line of JSON") {
    assertEquals(Serialization.write(file), line)
  }

  test("a line is read back, also one with fields that a later version adds") {
    assertEquals(Serialization.read[SeenFile](line), file)
    assertEquals(Serialization.read[SeenFile](line.replace("}", ""","more":1}""")), file)
  }
}
