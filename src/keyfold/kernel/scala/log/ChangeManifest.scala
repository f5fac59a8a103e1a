package org.apache.spark.sql.execution.keyfold.log

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.Path

/**
 * A file of changes that a manifest lists, with what it must contain. A merged one has changes of other
 * batches too, and names the batch of each; `rows` are those of the manifest's batch.
 */
case class ChangePart(file: Path, rows: Long, bytes: Long, merged: Boolean = false)

/**
 * What the manifest of a batch says about the batch's changes: its parts, of which there may be none, and
 * which batch was published before it.
 */
case class ChangeManifest(batch: Long, parts: Seq[ChangePart], previous: Option[Long] = None) {
  def rows: Long = parts.map(_.rows).sum
  def bytes: Long = parts.map(_.bytes).sum
}

object ChangeManifest {
  def fileName(batch: Long): String = s"$batch.json"

  /** The batch whose manifest has this name; other files of a log have none. */
  def batchOf(fileName: String): Option[Long] = fileName match {
    case s"$digits.json" if digits.nonEmpty && digits.forall(c => c >= '0' && c <= '9') => digits.toLongOption
    case _ => None
  }

  /** `file` is where the content was read from; its parts are beside it. */
  def parse(file: Path, content: Array[Byte]): ChangeManifest = {
    val manifest = of(file, file.getParent, LogJson.document(file, content))
    if (!batchOf(file.getName).contains(manifest.batch)) {
      throw LogProblem.damaged(file, s"is the manifest of another batch, ${manifest.batch}")
    }
    manifest
  }

  /** The manifest in a document of a file; its parts are below `log`. */
  def of(file: Path, log: Path, document: JsonNode): ChangeManifest = {
    val manifest = ChangeManifest(
      LogJson.number(file, document, "batch"),
      parts(file, log, document),
      Option.when(document.hasNonNull("previous"))(LogJson.number(file, document, "previous")))
    val changes = LogJson.number(file, LogJson.field(file, document, "counts"), "change")
    if (changes != manifest.rows) {
      throw LogProblem.damaged(file, s"counts $changes changes, of which ${manifest.rows} were kept")
    }
    manifest
  }

  /** The parts of changes that a document lists, by their paths below a directory. */
  def parts(file: Path, directory: Path, document: JsonNode): Seq[ChangePart] =
    LogJson.field(file, document, "parts").elements().asScala.toSeq
      .filter(part => LogJson.field(file, part, "kind").asText == "change")
      .map(changePart(file, directory, _))

  private def changePart(manifest: Path, directory: Path, part: JsonNode): ChangePart = ChangePart(
    new Path(directory, LogJson.field(manifest, part, "path").asText),
    LogJson.number(manifest, part, "rows"),
    LogJson.number(manifest, part, "bytes"),
    merged = part.has("first"))
}
