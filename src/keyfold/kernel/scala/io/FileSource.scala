package org.apache.spark.sql.execution.keyfold.io

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.connector.read.streaming.{Offset => Position, _}
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

/** A stream of files by their names. */
class FileSource(session: SparkSession, place: SourceDirectory, format: FileFormat, val schema: StructType,
    logPath: String, options: CaseInsensitiveMap[String]) extends SupportsAdmissionControl with Source {
  private val wanted = new FileStreamOptions(options)
  private val log = new SeenFilesLog(session, logPath)
  private val cleaner = place.cleaner(wanted)
  private val skipped = log.skipped
  private val directory = place.local.map(path => new WatchedDirectory(java.nio.file.Paths.get(path)))
  private val batches = new PlannedBatch(session, place, format, schema, options)
  private val seen = mutable.HashMap.empty[String, Long]
  private var at = log.getLatestBatchId().getOrElse(-1L)
  private var (newest, oldest) = (0L, 0L)
  // Listed and left for later batches.
  private var waiting = Seq.empty[FileStatus]
  log.allFiles().foreach(taken => remember(taken.path, taken.timestamp))
  leaveOld()

  private def key(name: String): String = {
    val below = SourceDirectory.below(name)
    if (wanted.fileNameOnly) below.substring(below.lastIndexOf('/') + 1) else below
  }

  private def remember(name: String, timestamp: Long): Unit = {
    seen(key(name)) = timestamp
    newest = newest.max(timestamp)
  }

  /** Old files are left unread only where that was asked for. */
  private def leaveOld(): Unit =
    if (options.contains("maxFileAge") && !wanted.latestFirst) oldest = newest - wanted.maxFileAgeMs

  /**
   * Where files are removed once they are read, old names need not be known for ever. One that is still there
   * must be: it may wait to be removed.
   */
  private def forget(listed: Seq[FileStatus]): Unit = if (wanted.cleanSource != CleanSourceMode.OFF) {
    val there = listed.iterator.map(file => key(place.name(file.getPath))).toSet
    seen.filterInPlace((name, time) => time >= newest - wanted.maxFileAgeMs || there(name))
  }

  private def listed(): Seq[FileStatus] = {
    val all = place.list()
    forget(all)
    all.filter(isNew)
  }

  override def latestOffset(start: Position, limit: ReadLimit): Position = {
    val look = directory.flatMap(_.look())
    if (waiting.isEmpty && look.exists(now => directory.get.isStill(now))) position
    else {
      val before = at
      take(limit)
      directory.foreach(d => if (at == before) look.foreach(d.nothingNew) else d.moved())
      position
    }
  }

  private def position: FileStreamSourceOffset = if (at < 0) null else FileStreamSourceOffset(at)

  private def take(limit: ReadLimit): Unit = {
    val found = if (waiting.nonEmpty) waiting else listed()
    val ordered = if (wanted.latestFirst) found.reverse else found
    val (now, later) = ordered.splitAt(limit match {
      case most: ReadMaxFiles => most.maxFiles()
      case most: ReadMaxBytes =>
        ordered.iterator.scanLeft(0L)(_ + _.getLen).drop(1).takeWhile(_ <= most.maxBytes()).size.max(1)
      case _ => ordered.size
    })
    waiting = if (wanted.latestFirst) Nil else later
    if (now.nonEmpty) write(now)
  }

  private def isNew(file: FileStatus): Boolean =
    file.getModificationTime >= oldest && !seen.contains(key(place.name(file.getPath)))

  private def write(files: Seq[FileStatus]): Unit = {
    if (cleaner.isDefined && place.hasLog) throw QueryExecutionErrors.cleanUpSourceFilesUnsupportedError()
    val taken = files.map(f => SeenFile(place.name(f.getPath), f.getModificationTime, f.getLen, at + 1)).toArray
    if (!log.add(at + 1, taken)) {
      throw new IllegalStateException(s"another process reads here too: $logPath, ${at + 1}")
    }
    at += 1
    taken.foreach(file => remember(file.path, file.timestamp))
    leaveOld()
  }

  override def getDefaultReadLimit: ReadLimit = wanted.maxFilesPerTrigger.map(ReadLimit.maxFiles)
    .orElse(wanted.maxBytesPerTrigger.map(ReadLimit.maxBytes)).getOrElse(ReadLimit.allAvailable())

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val after = start.map(FileStreamSourceOffset(_).logOffset).getOrElse(-1L)
    val planned = log.between(after, FileStreamSourceOffset(end).logOffset)
    batches.of(planned.map(_.path).filterNot(name => skipped(SourceDirectory.below(name))))
  }

  override def commit(end: Offset): Unit = cleaner.foreach { cleaner =>
    val done = FileStreamSourceOffset(end).logOffset
    log.between(done - 1, done).foreach { taken =>
      cleaner.clean(FileEntry(SparkPath.fromPath(place.file(taken.path)).urlEncoded, taken.timestamp, done))
    }
  }

  override def getOffset: Option[Offset] = throw QueryExecutionErrors.latestOffsetNotCalledError()

  override def stop(): Unit = cleaner.foreach(_.stop())

  override def toString: String = s"FileStreamSource[${place.declared}]"
}
