package org.apache.spark.sql.execution.keyfold.io

import java.net.URI

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.unescapePathName
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileStreamSourceCleaner
import org.apache.spark.sql.execution.streaming.runtime.{FileStreamOptions, MetadataLogFileIndex}
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.types.StructType

/**
 * Where a stream's files are, and what they are called in its log: `<stream>:/<path below the declared
 * directory>`, so that they are known wherever that directory is moved to. Files of the home have no stream,
 * and a path below the directory `within`. Of a pattern, the directory is the part before its first sign; a
 * file that was declared itself is `<stream>:./<name>`.
 */
class SourceDirectory(session: SparkSession, path: String, val stream: String, within: Option[String],
    options: CaseInsensitiveMap[String]) {
  private val conf = session.sessionState.newHadoopConfWithOptions(options)
  private val pattern = SparkHadoopUtil.get.isGlobPath(new Path(path))
  val system = new Path(path).getFileSystem(conf)
  val declared: Path = system.makeQualified(new Path(path))
  val base: Path = within match {
    case Some(directory) => system.makeQualified(new Path(directory))
    case None => Iterator.iterate(declared)(_.getParent).dropWhile(SparkHadoopUtil.get.isGlobPath).next()
  }
  private val start = base.toUri.getPath.stripSuffix("/")
  private val recursive = options.get("recursiveFileLookup").exists(_.toBoolean)
  private val listing = options + ("recursiveFileLookup" -> "true")
  // Whether a stream of Spark's wrote the directory, which then says what of it counts; not known at first.
  private var written: Option[Boolean] = if (pattern) Some(false) else None

  /** Its directory if it is one of this machine. */
  def local: Option[String] =
    if (declared.toUri.getScheme == "file" && !pattern) Some(declared.toUri.getPath) else None

  def name(file: Path): String = {
    val full = file.toUri.getPath
    if (full == start) s"$stream:./${file.getName}"
    else if (full.startsWith(s"$start/")) s"$stream:${full.substring(start.length)}"
    else throw new IllegalStateException(
      s"[KEYFOLD_FOREIGN_FILE] the log of the stream that wrote $declared (_spark_metadata) names files of " +
      s"another place: $file. Spark can't read a directory of its own that was moved")
  }

  def file(name: String): Path = {
    val below = SourceDirectory.below(name)
    val parent = start.substring(0, start.lastIndexOf('/').max(0))
    val full = if (below.startsWith("./")) parent + below.substring(1) else start + below
    val uri = base.toUri
    new Path(new URI(uri.getScheme, uri.getAuthority, full, null, null))
  }

  /** All files that are there, the oldest first. */
  def list(): Seq[FileStatus] = {
    if (written.isEmpty && hasLog) written = Some(true)
    val found = if (written.contains(true)) {
      new MetadataLogFileIndex(session, declared, options, None).allFiles()
    } else {
      val roots = SparkHadoopUtil.get.globPathIfNecessary(system, declared)
      val all = new InMemoryFileIndex(session, roots, listing, Some(new StructType)).allFiles()
      if (recursive) all else all.filter(SourceDirectory.read(roots.toSet))
    }
    if (written.isEmpty && found.nonEmpty) written = Some(false)
    found.sortBy(f => (f.getModificationTime, f.getPath.toString))
  }

  /** Those of some files that are there. */
  def there(files: Seq[Path]): Seq[FileStatus] =
    new InMemoryFileIndex(session, Nil, options, Some(new StructType)).listLeafFiles(files).toSeq

  def hasLog: Boolean = FileStreamSink.hasMetadata(Seq(path), conf, session.sessionState.conf)

  def cleaner(wanted: FileStreamOptions): Option[FileStreamSourceCleaner] =
    FileStreamSourceCleaner(system, declared, wanted, conf)
}

object SourceDirectory {
  /** The name without its stream, which may be called otherwise by now. */
  def below(name: String): String = name.substring(name.indexOf(':') + 1)

  /** Columns and values that the directories of a file name, below a base. */
  def directories(file: Path, base: String): Seq[(String, String)] =
    pairs(file.toUri.getPath.stripPrefix(new Path(base).toUri.getPath))

  def pairs(below: String): Seq[(String, String)] =
    below.split('/').dropRight(1).toSeq.filter(_.indexOf('=') > 0).map(_.split("=", 2))
      .map(pair => unescapePathName(pair(0)) -> pair(1))

  /** As by Spark: files of the directories themselves, and of those below that are named `column=value`. */
  private def read(roots: Set[Path])(file: FileStatus): Boolean = roots(file.getPath) ||
    Iterator.iterate(file.getPath.getParent)(_.getParent).takeWhile(d => d != null && !roots(d))
      .forall(_.getName.indexOf('=') > 0)
}
