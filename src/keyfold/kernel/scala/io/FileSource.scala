package org.apache.spark.sql.execution.keyfold.io

import java.nio.file.Paths

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.connector.read.streaming.{Offset => ConnectorOffset, _}
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

/**
 * A streaming source of files that are known by their names in `SourceDirectory`. It takes the options of
 * Spark's file source; its offsets count the entries of its log, each of which lists the files of a batch.
 */
class FileSource(
    session: SparkSession,
    directory: SourceDirectory,
    format: FileFormat,
    val schema: StructType,
    logPath: String,
    options: CaseInsensitiveMap[String]) extends SupportsAdmissionControl with Source {
  private val settings = new FileStreamOptions(options)
  private val log = new SeenFilesLog(session, logPath)
  private val cleaner = directory.cleaner(settings)
  private val skipped = log.skipped
  private val watched = directory.local.map(path => new WatchedDirectory(Paths.get(path)))
  private val batches = new PlannedBatch(session, directory, format, schema, options)
  // Modification times of the files in the log.
  private val seen = mutable.HashMap.empty[String, Long]
  private var lastEntry = log.getLatestBatchId().getOrElse(-1L)
  private var (newest, oldestRead) = (0L, 0L)
  // Listed, and left for later batches by a read limit.
  private var pending = Seq.empty[FileStatus]
  log.allFiles().foreach(file => remember(file.path, file.timestamp))
  skipOldFiles()

  private def key(name: String): String = {
    val relative = SourceDirectory.withoutStream(name)
    if (settings.fileNameOnly) relative.substring(relative.lastIndexOf('/') + 1) else relative
  }

  private def remember(name: String, timestamp: Long): Unit = {
    seen(key(name)) = timestamp
    newest = newest.max(timestamp)
  }

  /**
   * Files are left unread for their age only where that was asked for; Spark's source has a default of a
   * week.
   */
  private def skipOldFiles(): Unit =
    if (options.contains("maxFileAge") && !settings.latestFirst) oldestRead = newest - settings.maxFileAgeMs

  /**
   * Where files are removed once they are read, old names are forgotten. One that still exists must be
   * known: it may be waiting to be removed.
   */
  private def forgetOldNames(listed: Seq[FileStatus]): Unit =
    if (settings.cleanSource != CleanSourceMode.OFF) {
      val existing = listed.iterator.map(file => key(directory.name(file.getPath))).toSet
      seen.filterInPlace((name, time) => time >= newest - settings.maxFileAgeMs || existing(name))
    }

  private def listNew(): Seq[FileStatus] = {
    val all = directory.list()
    forgetOldNames(all)
    all.filter(isNew)
  }

  private def isNew(file: FileStatus): Boolean =
    file.getModificationTime >= oldestRead && !seen.contains(key(directory.name(file.getPath)))

  override def latestOffset(start: ConnectorOffset, limit: ReadLimit): ConnectorOffset = {
    val state = watched.flatMap(_.state())
    if (pending.nonEmpty || !state.exists(now => watched.get.isUnchanged(now))) {
      val before = lastEntry
      planNext(limit)
      watched.foreach(d => if (lastEntry == before) state.foreach(d.foundNothing) else d.foundNewFiles())
    }
    if (lastEntry < 0) null else FileStreamSourceOffset(lastEntry)
  }

  private def planNext(limit: ReadLimit): Unit = {
    val found = if (pending.nonEmpty) pending else listNew()
    val ordered = if (settings.latestFirst) found.reverse else found
    val (now, later) = ordered.splitAt(BatchLimit.count(ordered, limit))
    pending = if (settings.latestFirst) Nil else later
    if (now.nonEmpty) addToLog(now)
  }

  private def addToLog(files: Seq[FileStatus]): Unit = {
    if (cleaner.isDefined && directory.hasLog) throw QueryExecutionErrors.cleanUpSourceFilesUnsupportedError()
    val entry = lastEntry + 1
    val planned = files.map(f => SeenFile(directory.name(f.getPath), f.getModificationTime, f.getLen, entry))
    if (!log.add(entry, planned.toArray)) {
      throw new IllegalStateException(s"another process has written entry $entry of the source log $logPath")
    }
    lastEntry = entry
    planned.foreach(file => remember(file.path, file.timestamp))
    skipOldFiles()
  }

  override def getDefaultReadLimit: ReadLimit = BatchLimit.of(settings, session)

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val after = start.map(FileStreamSourceOffset(_).logOffset).getOrElse(-1L)
    val planned = log.between(after, FileStreamSourceOffset(end).logOffset).map(_.path)
    batches.of(planned.filterNot(name => skipped(SourceDirectory.withoutStream(name))))
  }

  override def commit(end: Offset): Unit = cleaner.foreach { cleaner =>
    val entry = FileStreamSourceOffset(end).logOffset
    log.between(entry - 1, entry).foreach { file =>
      val path = SparkPath.fromPath(directory.file(file.path))
      cleaner.clean(FileEntry(path.urlEncoded, file.timestamp, entry))
    }
  }

  override def getOffset: Option[Offset] = throw QueryExecutionErrors.latestOffsetNotCalledError()

  override def stop(): Unit = cleaner.foreach(_.stop())

  override def toString: String = s"FileStreamSource[${directory.declared}]"
}
