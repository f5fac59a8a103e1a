package org.apache.spark.sql.execution.keyfold.io

import java.net.URI

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.unescapePathName
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.keyfold.spark.files.SparkFileListing
import org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileStreamSourceCleaner
import org.apache.spark.sql.keyfold.expressions.KernelError

/**
 * The directory that a stream reads, and the names of its files in the stream's log. A name is
 * `<stream>:/<path below the declared directory>`, which stays the same wherever the directory is moved to.
 * Of a glob pattern, the directory is the part before the first wildcard; a file that was declared itself
 * is `<stream>:./<file name>`. Files of the home have no stream, and a path below the directory `within`.
 */
class SourceDirectory(
    session: SparkSession,
    path: String,
    val stream: String,
    within: Option[String],
    options: CaseInsensitiveMap[String]) {
  private val listing = new SparkFileListing(session, options)
  private val isGlob = SparkFileListing.isGlob(new Path(path))
  private val system: FileSystem = new Path(path).getFileSystem(listing.conf)
  private val recursive = options.get("recursiveFileLookup").exists(_.toBoolean)

  val declared: Path = system.makeQualified(new Path(path))
  val base: Path = within match {
    case Some(directory) => system.makeQualified(new Path(directory))
    case None => Iterator.iterate(declared)(_.getParent).dropWhile(SparkFileListing.isGlob).next()
  }
  private val names = new FileNames(stream, base)

  // Whether the directory has the log of a Spark query that wrote it; unknown until there are files.
  private var hasLogNow: Option[Boolean] = if (isGlob) Some(false) else None

  /** The path of a directory on this machine. */
  def local: Option[String] =
    if (declared.toUri.getScheme == "file" && !isGlob) Some(declared.toUri.getPath) else None

  def name(file: Path): String = names.of(file).getOrElse(throw KernelError(KernelError.ForeignFile,
    s"the log of the query that wrote $declared (_spark_metadata) names a file of " +
    s"another directory: $file. Spark cannot read a directory that it wrote and that was moved since"))

  def file(name: String): Path = names.file(name)

  /** All files of the stream that exist, oldest first. */
  def list(): Seq[FileStatus] = {
    if (hasLogNow.isEmpty && hasLog) hasLogNow = Some(true)
    val found = if (hasLogNow.contains(true)) listing.inSinkLog(declared) else listFiles()
    if (hasLogNow.isEmpty && found.nonEmpty) hasLogNow = Some(false)
    found.sortBy(f => (f.getModificationTime, f.getPath.toString))
  }

  private def listFiles(): Seq[FileStatus] = {
    val roots = listing.roots(system, declared)
    val all = listing.below(roots)
    if (recursive) all else all.filter(file => SourceDirectory.isPartitioned(roots.toSet, file.getPath))
  }

  /** Those of the files that exist. */
  def existing(files: Seq[Path]): Seq[FileStatus] = listing.existing(files)

  /** Whether a streaming query of Spark's wrote the directory. */
  def hasLog: Boolean = listing.hasSinkLog(path)

  def cleaner(options: FileStreamOptions): Option[FileStreamSourceCleaner] =
    listing.cleaner(system, declared, options)
}

/** Files as their names in a stream's log, and back. */
class FileNames(stream: String, base: Path) {
  private val prefix = base.toUri.getPath.stripSuffix("/")

  /** None for a file that is not below the base. */
  def of(file: Path): Option[String] = {
    val full = file.toUri.getPath
    if (full == prefix) Some(s"$stream:./${file.getName}")
    else if (full.startsWith(s"$prefix/")) Some(s"$stream:${full.substring(prefix.length)}")
    else None
  }

  def file(name: String): Path = {
    val relative = SourceDirectory.withoutStream(name)
    val parent = prefix.substring(0, prefix.lastIndexOf('/').max(0))
    val full = if (relative.startsWith("./")) parent + relative.substring(1) else prefix + relative
    new Path(new URI(base.toUri.getScheme, base.toUri.getAuthority, full, null, null))
  }
}

object SourceDirectory {
  /** A name without its stream, which may have another name by now. */
  def withoutStream(name: String): String = name.substring(name.indexOf(':') + 1)

  /** The columns that the directories of a file fill, with their values: those named `column=value`. */
  def partitionColumns(relative: String): Seq[(String, String)] =
    relative.split('/').dropRight(1).toSeq.filter(isPartition).map(_.split("=", 2))
      .map(pair => unescapePathName(pair(0)) -> pair(1))

  def partitionColumns(file: Path, base: String): Seq[(String, String)] =
    partitionColumns(file.toUri.getPath.stripPrefix(new Path(base).toUri.getPath))

  /** Spark reads files of the roots themselves, and those below in directories named `column=value`. */
  private def isPartitioned(roots: Set[Path], file: Path): Boolean = roots(file) ||
    Iterator.iterate(file.getParent)(_.getParent).takeWhile(d => d != null && !roots(d))
      .forall(directory => isPartition(directory.getName))

  private def isPartition(directory: String): Boolean = directory.indexOf('=') > 0
}
