package org.apache.spark.sql.execution.keyfold.log

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

/** The log of a table, on any file system: manifests by batch, and up to which batch it was pruned. */
class LogDirectory(uri: String, val conf: Configuration) {
  private val system: FileSystem = new Path(uri).getFileSystem(conf)
  val path: Path = LogDirectory.qualified(uri, conf)

  val merged: MergedBatches = new MergedBatches(path, system)

  /** The batches behind one that have a manifest, in order; none before the first is published. */
  def batches(after: Long): Seq[Long] = {
    val own =
      try system.listStatus(path).toSeq.flatMap(f => ChangeManifest.batchOf(f.getPath.getName))
      catch { case _: FileNotFoundException => Nil }
    (own.filter(_ > after) ++ merged.batches(after)).distinct.sorted
  }

  /** The manifest of a batch; None if it does not exist. */
  def manifest(batch: Long): Option[ChangeManifest] = {
    val file = manifestFile(batch)
    read(file).map(ChangeManifest.parse(file, _)).orElse(merged.manifest(batch))
  }

  def manifestFile(batch: Long): Path = new Path(path, ChangeManifest.fileName(batch))

  /** The batch up to which manifests and parts were removed, or are about to be; -1 if none were. */
  def prunedUpto(): Long = {
    val file = new Path(path, "totals.json")
    read(file).map(content => LogJson.number(file, LogJson.document(file, content), "upto")).getOrElse(-1L)
  }

  /** The file of a part; an error if it is missing or not as long as the manifest says. */
  def status(part: ChangePart): FileStatus = {
    val found = try system.getFileStatus(part.file)
    catch { case _: FileNotFoundException => throw LogProblem.damaged(part.file, "is missing") }
    if (found.getLen != part.bytes) {
      throw LogProblem.damaged(part.file, s"has ${found.getLen} bytes, and its log says ${part.bytes}")
    }
    found
  }

  private def read(file: Path): Option[Array[Byte]] = LogDirectory.read(system, file)
}

object LogDirectory {
  /** The path with its scheme, by which a log is known in this process. */
  def qualified(uri: String, conf: Configuration): Path = {
    val given = new Path(uri)
    given.getFileSystem(conf).makeQualified(given)
  }

  /** The content of a file; None if it does not exist. */
  def read(system: FileSystem, file: Path): Option[Array[Byte]] =
    try Some(Using.resource(system.open(file))(_.readAllBytes()))
    catch { case _: FileNotFoundException => None }
}
