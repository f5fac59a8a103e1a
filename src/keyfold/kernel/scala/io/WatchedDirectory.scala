package org.apache.spark.sql.execution.keyfold.io

import java.io.IOException
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS, SECONDS}

import scala.jdk.CollectionConverters._
import scala.util.Using

/** A directory at one time: which it is, and when something in it last came or went. */
private case class DirectoryState(file: AnyRef, changed: FileTime)(val at: Long)

/** Whether files can have come to a directory since it was listed. */
private class WatchedDirectory(path: Path) {
  private var still: Option[(DirectoryState, Long)] = None

  def look(): Option[DirectoryState] =
    try {
      val found = Files.readAttributes(path, classOf[BasicFileAttributes])
      if (found.isDirectory) Some(DirectoryState(found.fileKey, found.lastModifiedTime)(System.currentTimeMillis())) else None
    } catch { case _: IOException => None }

  def isStill(now: DirectoryState): Boolean = still.exists { case (was, listed) => was == now && System.nanoTime() - listed < WatchedDirectory.Trusted }

  def moved(): Unit = still = None

  /** It was looked at, then listed, and there was nothing new. */
  def nothingNew(look: DirectoryState): Unit = {
    // What comes to a directory below it changes that one's time only.
    def flat = Using(Files.newDirectoryStream(path))(_.iterator().asScala.forall(!Files.isDirectory(_))).getOrElse(false)
    still = if (look.at - look.changed.toMillis > WatchedDirectory.tick(look.changed) && flat) Some((look, System.nanoTime())) else None
  }
}

private object WatchedDirectory {
  /** A directory is listed after this time whatever it looks like: mounts may keep its time in a cache or not at all, and copies with their times set it back. */
  val Trusted: Long = SECONDS.toNanos(5)

  /** Milliseconds in which two changes may have one time: Linux stamps them by a clock that moves every few, some file systems keep seconds, or two. */
  def tick(changed: FileTime): Long = if (changed.to(NANOSECONDS) % MILLISECONDS.toNanos(1) != 0) 100 else 3000
}
