package org.apache.spark.sql.execution.keyfold.log

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The rows of a table as they were after a batch, for a reader that begins later than the table: changes
 * with which its first batch begins, as if that batch had made all of them.
 */
class ReaderSnapshot(directory: String, conf: Configuration) {
  private val path = LogDirectory.qualified(directory, conf)
  private val system = path.getFileSystem(conf)
  private val record = new Path(path, "snapshot.json")

  /** The snapshot as a manifest; None for a reader that began together with the table. */
  val manifest: Option[ChangeManifest] = LogDirectory.read(system, record).map { content =>
    val document = LogJson.document(record, content)
    ChangeManifest(LogJson.number(record, document, "batch"), ChangeManifest.parts(record, path, document))
  }

  /** Removes the snapshot, when the batch that begins with it can't run again. */
  def remove(): Unit = manifest.foreach { found =>
    (record +: found.parts.map(_.file)).foreach(system.delete(_, false))
  }
}
