package org.apache.spark.sql.execution.keyfold.io

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.connector.read.streaming.ReadLimit

class BatchLimitSuite extends munit.FunSuite {
  private val files = Seq(10L, 20L, 30L).map(size => new FileStatus(size, false, 1, 1, 0, new Path("/f")))

  private def both(files: Int, bytes: Long) =
    ReadLimit.compositeLimit(Array(ReadLimit.maxFiles(files), ReadLimit.maxBytes(bytes)))

  test("of files and bytes, what is less counts") {
    assertEquals(BatchLimit.count(files, both(2, 1000)), 2)
    assertEquals(BatchLimit.count(files, both(100, 30)), 2)
  }

  test("a file that is larger than the limit is read alone") {
    assertEquals(BatchLimit.count(files, both(100, 5)), 1)
  }

  test("a session without limits reads all") {
    assertEquals(BatchLimit.count(files, ReadLimit.compositeLimit(Array.empty)), 3)
    assertEquals(BatchLimit.count(files, ReadLimit.allAvailable()), 3)
  }
}
