package org.apache.spark.sql.execution.keyfold.io

import java.io.IOException
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS, SECONDS}

import scala.jdk.CollectionConverters._
import scala.util.Using

/** A directory as it was found at a time: which one it is, and when an entry was last added or removed. */
private case class DirectoryState(file: AnyRef, changed: FileTime)(val seenAt: Long)

/** Decides whether files can have been added to a local directory since it was last listed. */
private class WatchedDirectory(path: Path) {
  // The state in which a listing found nothing new, and when that was.
  private var unchanged: Option[(DirectoryState, Long)] = None

  def state(): Option[DirectoryState] =
    try {
      val found = Files.readAttributes(path, classOf[BasicFileAttributes])
      if (!found.isDirectory) None
      else Some(DirectoryState(found.fileKey, found.lastModifiedTime)(System.currentTimeMillis()))
    } catch { case _: IOException => None }

  def isUnchanged(now: DirectoryState): Boolean = unchanged.exists { case (before, listedAt) =>
    before == now && System.nanoTime() - listedAt < WatchedDirectory.Trusted
  }

  def foundNewFiles(): Unit = unchanged = None

  /** A listing that was made after `before` found nothing new. */
  def foundNothing(before: DirectoryState): Unit = {
    val settled = before.seenAt - before.changed.toMillis > WatchedDirectory.resolution(before.changed)
    unchanged = if (settled && isFlat) Some((before, System.nanoTime())) else None
  }

  /** A file that is added to a subdirectory changes the time of that one only. */
  private def isFlat: Boolean = {
    val directories = Using(Files.newDirectoryStream(path))(_.iterator().asScala.exists(Files.isDirectory(_)))
    directories.toOption.contains(false)
  }
}

private object WatchedDirectory {
  /**
   * After this time a directory is listed whatever its state: mounts may cache its time or keep none, and
   * tools that preserve times set it back.
   */
  val Trusted: Long = SECONDS.toNanos(5)

  /**
   * Milliseconds within which two changes may carry the same time. Linux stamps files by a clock that moves
   * every few milliseconds; some file systems keep whole seconds, or every other.
   */
  def resolution(changed: FileTime): Long =
    if (changed.to(NANOSECONDS) % MILLISECONDS.toNanos(1) != 0) 100 else 3000
}
