package org.apache.spark.sql.execution.keyfold.log

import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkException
import org.apache.spark.sql.keyfold.expressions.KernelError

/** Which batches of a log a reader takes next, and what it does about batches that are not there. */
class UnreadBatchesSuite extends munit.FunSuite {
  private val conf = new Configuration()
  private val all = LogLimits()

  private def withLog(test: LocalPath => Unit): Unit = {
    val home = Files.createTempDirectory("log")
    try test(home)
    finally {
      home.toFile.listFiles().foreach(_.delete())
      Files.delete(home)
    }
  }

  private def log(home: LocalPath) = new LogDirectory(home.toUri.toString, conf)

  private def write(home: LocalPath, batch: Long, rows: Long): Unit = {
    val part = s"""{"path": "data/p.parquet", "kind": "change", "rows": $rows, "bytes": 1}"""
    val parts = if (rows == 0) "" else part
    val text = s"""{"layout": 1, "batch": $batch, "parts": [$parts], "counts": {"change": $rows}}"""
    Files.writeString(home.resolve(s"$batch.json"), text)
  }

  private def publish(home: LocalPath, batch: Long, rows: Long): Unit = {
    write(home, batch, rows)
    PublishedBatches.publish(log(home).path, batch)
  }

  private def pruned(home: LocalPath, upto: Long): Unit = {
    Files.writeString(home.resolve("totals.json"), s"""{"layout": 1, "upto": $upto, "counts": {}}""")
    (0L to upto).foreach(batch => Files.deleteIfExists(home.resolve(s"$batch.json")))
  }

  test("batches are found by listing at the start, and later by their announcement") { withLog { home =>
    val unread = new UnreadBatches(log(home))
    assertEquals(unread.next(-1, all), None)
    write(home, 0, 3)
    assertEquals(unread.next(-1, all), None, "nobody has announced it, and the directory is not listed again")
    publish(home, 1, 3)
    assertEquals(unread.next(-1, all), Some(1L))
    assertEquals(unread.between(-1, 1).map(_.batch), Seq(0L, 1L))
    assertEquals(new UnreadBatches(log(home)).next(0, all), Some(1L))
    assertEquals(unread.next(1, all), None)
  } }

  test("an announcement proves nothing: a batch counts when its manifest is there") { withLog { home =>
    val unread = new UnreadBatches(log(home))
    PublishedBatches.publish(log(home).path, 9)
    assertEquals(unread.next(-1, all), None)
    write(home, 0, 1)
    assertEquals(unread.next(-1, all), Some(0L))
    write(home, 1, 1)
    assertEquals(unread.next(0, all), Some(1L))
    PublishedBatches.forget(log(home).path)
    assertEquals(PublishedBatches.newest(log(home).path), -1L)
  } }

  test("a reader takes at most so many rows or batches, and at least one batch") { withLog { home =>
    (0L to 5L).foreach(write(home, _, 10))
    val unread = new UnreadBatches(log(home))
    assertEquals(unread.next(-1, LogLimits(rows = 35)), Some(2L))
    assertEquals(unread.next(2, LogLimits(rows = 1)), Some(3L))
    assertEquals(unread.next(-1, LogLimits(batches = 2)), Some(1L))
    assertEquals(unread.next(-1, all), Some(5L))
  } }

  test("batches without changes are passed over with the next one, or when they are many") { withLog { home =>
    (0L to 4L).foreach(write(home, _, 0))
    val unread = new UnreadBatches(log(home))
    assertEquals(unread.next(-1, all), None)
    assertEquals(unread.next(-1, LogLimits(emptyBatches = 5)), Some(4L))
    publish(home, 5, 7)
    publish(home, 6, 0)
    assertEquals(unread.next(-1, all), Some(6L))
    assertEquals(unread.next(6, all), None)
  } }

  test("numbers may have gaps") { withLog { home =>
    Seq(0L, 1L, 4L).foreach(write(home, _, 1))
    val unread = new UnreadBatches(log(home))
    assertEquals(unread.next(-1, all), Some(4L))
    assertEquals(unread.between(0, 4).map(_.batch), Seq(1L, 4L))
    publish(home, 7, 1)
    assertEquals(unread.next(4, all), Some(7L))
  } }

  test("a log that was pruned past its reader is refused") { withLog { home =>
    (0L to 6L).foreach(write(home, _, 1))
    pruned(home, 3)
    assertEquals(new UnreadBatches(log(home)).next(3, all), Some(6L))
    assertEquals(new UnreadBatches(log(home)).next(5, all), Some(6L))
    for (after <- Seq(-1L, 2L)) {
      val error = intercept[SparkException](new UnreadBatches(log(home)).next(after, all))
      assertEquals(error.getCondition, KernelError.LogPruned)
      assert(error.getMessageParameters.get("log").startsWith("file:"))
      assertEquals(error.getMessageParameters.get("upto"), "3")
      assertEquals(error.getMessageParameters.get("needed"), s"${after + 1}")
    }
    pruned(home, 6)
    val error = intercept[SparkException](new UnreadBatches(log(home)).between(3, 6))
    assertEquals(error.getCondition, KernelError.LogPruned)
  } }

  test("a manifest that was planned and is gone is named") { withLog { home =>
    (0L to 1L).foreach(write(home, _, 1))
    Files.delete(home.resolve("1.json"))
    val error = intercept[SparkException](new UnreadBatches(log(home)).between(-1, 1))
    assertEquals(error.getCondition, KernelError.LogDamaged)
    assert(error.getMessageParameters.get("file").endsWith("/1.json"))
    assertEquals(error.getMessageParameters.get("problem"), "is missing")
  } }

  test("what is forgotten is listed again if it is asked for again") { withLog { home =>
    (0L to 3L).foreach(write(home, _, 1))
    val unread = new UnreadBatches(log(home))
    assertEquals(unread.next(-1, all), Some(3L))
    unread.forget(2)
    assertEquals(unread.between(2, 3).map(_.batch), Seq(3L))
    assertEquals(unread.knownBytes(-1, 3), 1L)
    assertEquals(unread.between(0, 2).map(_.batch), Seq(1L, 2L))
    assertEquals(unread.next(3, all), None)
  } }

  test("a log is the same however its URI is written") {
    val names = Seq("file:/a/b/log", "file:///a/b/log", "file:///a/b/log/")
    val paths = names.map(name => new LogDirectory(name, conf).path)
    PublishedBatches.publish(new org.apache.hadoop.fs.Path("file:///a/b/log"), 5)
    assertEquals(paths.map(PublishedBatches.newest), Seq(5L, 5L, 5L))
    PublishedBatches.forget(paths.head)
  }
}
