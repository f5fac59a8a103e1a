package org.apache.spark.sql.execution.keyfold.log

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException

/** What a manifest says about changes, and manifests that say nothing usable. */
class ChangeManifestSuite extends munit.FunSuite {
  private val file = new Path("file:/home/log/12.json")
  private val whole = """{"layout": 1, "epoch": 3, "batch": 12, "watermark": null, "parts": [
    {"path": "data/12-ab/part-change-00000.parquet", "kind": "change", "rows": 2, "bytes": 99},
    {"path": "data/12-ab/part-late-00000.parquet", "kind": "late", "rows": 1, "bytes": 7},
    {"path": "data/12-ab/part-change-00001.parquet", "kind": "change", "rows": 3, "bytes": 1, "checksum": "c"}
    ], "counts": {"change": 5, "late": 1}}"""

  private def parse(text: String) = ChangeManifest.parse(file, text.getBytes("UTF-8"))

  private def problem(text: String): String = intercept[SparkException](parse(text)).getMessage

  test("the parts of changes are found beside the manifest") {
    val manifest = parse(whole)
    assertEquals(manifest.batch, 12L)
    assertEquals(manifest.parts, Seq(
      ChangePart(new Path("file:/home/log/data/12-ab/part-change-00000.parquet"), 2, 99),
      ChangePart(new Path("file:/home/log/data/12-ab/part-change-00001.parquet"), 3, 1)))
    assertEquals((manifest.rows, manifest.bytes), (5L, 100L))
  }

  test("a batch without changes has a manifest without their parts") {
    val empty = """{"layout": 1, "batch": 12, "parts": [], "counts": {"change": 0}}"""
    assertEquals(parse(empty).rows, 0L)
  }

  test("one that is cut short, of another layout or of another batch is named") {
    for (text <- Seq("", whole.take(60), whole.dropRight(1), "[]", "12", whole.replace("\"rows\": 2,", ""))) {
      assert(problem(text).startsWith("[KEYFOLD_LOG_DAMAGED] file:/home/log/12.json "), text)
    }
    assert(problem(whole.replace("\"layout\": 1", "\"layout\": 2")).contains("has layout 2"))
    assert(problem(whole.replace("\"batch\": 12", "\"batch\": 11")).contains("of another batch"))
  }

  test("a batch whose changes were counted and not kept can't be read") {
    val counted = """{"layout": 1, "batch": 12, "parts": [], "counts": {"change": 5}}"""
    assert(problem(counted).endsWith("12.json counts 5 changes, of which 0 were kept"))
  }

  test("manifests are told from the other files of a log") {
    assertEquals(ChangeManifest.batchOf("12.json"), Some(12L))
    for (name <- Seq("totals.json", "data", ".12.json", "12.json.crc", "-1.json", ".json", "12")) {
      assertEquals(ChangeManifest.batchOf(name), None, name)
    }
  }
}
