package org.apache.spark.sql.execution.keyfold.log

import java.io.FileNotFoundException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{FileSystem, Path}

/** The batches from one to another, whose manifests are in one file. */
case class MergedRange(first: Long, last: Long) {
  def fileName: String = s"$first-$last.json"
}

/**
 * The batches of a log whose parts were merged. The directory is listed once: a log is not merged while an
 * app runs.
 */
class MergedBatches(log: Path, system: FileSystem) {
  private val directory = new Path(log, "merged")
  private val loaded = mutable.HashMap.empty[MergedRange, Map[Long, JsonNode]]

  private lazy val ranges: Seq[MergedRange] = {
    val names =
      try system.listStatus(directory).toSeq.map(_.getPath.getName)
      catch { case _: FileNotFoundException => Nil }
    MergedRange.outermost(names.flatMap(MergedRange.named))
  }

  def batches(after: Long): Seq[Long] = ranges.filter(_.last > after).flatMap(load(_).keys).filter(_ > after)

  def manifest(batch: Long): Option[ChangeManifest] =
    for {
      range <- ranges.find(r => r.first <= batch && batch <= r.last)
      document <- load(range).get(batch)
    } yield ChangeManifest.of(file(range), log, document)

  /** Whether some of the batches behind `after`, up to `last`, may be merged ones. */
  def between(after: Long, last: Long): Boolean = ranges.exists(r => r.last > after && r.first <= last)

  private def file(range: MergedRange) = new Path(directory, range.fileName)

  private def load(range: MergedRange): Map[Long, JsonNode] = loaded.getOrElseUpdate(range, {
    val from = file(range)
    val documents = LogDirectory.read(system, from).toSeq.flatMap { content =>
      LogJson.field(from, LogJson.document(from, content), "batches").elements().asScala
    }
    documents.map(document => LogJson.number(from, document, "batch") -> document).toMap
  })
}

object MergedRange {
  def named(fileName: String): Option[MergedRange] = fileName match {
    case s"$first-$last.json" =>
      for (from <- first.toLongOption; upto <- last.toLongOption) yield MergedRange(from, upto)
    case _ => None
  }

  /** Without those inside another one, which were merged again. */
  def outermost(ranges: Seq[MergedRange]): Seq[MergedRange] =
    ranges.sortBy(r => (r.first, -r.last)).foldLeft(Vector.empty[MergedRange]) { (found, range) =>
      if (found.lastOption.forall(_.last < range.last)) found :+ range else found
    }
}
