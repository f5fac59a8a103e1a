package org.apache.spark.sql.execution.keyfold.io

import java.io.BufferedOutputStream
import java.nio.channels.{Channels, FileChannel}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.attribute.PosixFilePermissions.asFileAttribute
import java.nio.file.{Files, Path => LocalPath, Paths, StandardCopyOption, StandardOpenOption => Open}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/**
 * Checkpoint files on a local disk, by direct system calls. Hadoop starts a process for each permission
 * that it sets and each link that it looks for, which takes half of the time of a small batch. Other file
 * systems are left to Hadoop. State is its owner's alone: files and directories are private, whatever the
 * umask.
 */
class LocalCheckpointFiles(path: Path, conf: Configuration)
  extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def createTempFile(file: Path): FSDataOutputStream =
    if (!isLocal) super.createTempFile(file)
    else {
      val target = local(file)
      createDirectory(target.getParent)
      // A snapshot's zip is written last; Hadoop has copied its other files, with permissions of its own.
      if (file.getName.contains(".zip")) snapshotFiles(target.getParent).foreach { written =>
        makePrivate(written)
        if (flushes) flush(written)
      }
      val channel = FileChannel.open(target, options, asFileAttribute(privateFile))
      val out = new BufferedOutputStream(Channels.newOutputStream(channel), 1 << 16) {
        override def close(): Unit = {
          flush()
          if (flushes && channel.isOpen) channel.force(true)
          super.close()
        }
      }
      new FSDataOutputStream(out, null)
    }

  /** Whether files are on disk, and not in the system's memory, before anything relies on them. */
  private val flushes = conf.getBoolean(LocalCheckpointFiles.Flush, true)

  private def options = java.util.Set.of(Open.CREATE, Open.TRUNCATE_EXISTING, Open.WRITE)
  private val privateFile = PosixFilePermissions.fromString("rw-------")
  private val privateDirectory = PosixFilePermissions.fromString("rwx------")

  private def createDirectory(directory: LocalPath): LocalPath =
    Files.createDirectories(directory, asFileAttribute(privateDirectory))

  /** The directories in which the state store keeps the files that snapshots share, and those files. */
  private def snapshotFiles(state: LocalPath): Seq[LocalPath] =
    Seq("SSTs", "logs").map(state.resolve).filter(Files.isDirectory(_)).flatMap { directory =>
      directory +: Using(Files.newDirectoryStream(directory))(_.asScala.toSeq).getOrElse(Nil)
    }

  private def makePrivate(path: LocalPath): Unit = {
    val wanted = if (Files.isDirectory(path)) privateDirectory else privateFile
    // Another task may be removing old files, and not every file system has permissions.
    try if (Files.getPosixFilePermissions(path) != wanted) Files.setPosixFilePermissions(path, wanted)
    catch { case _: java.io.IOException | _: UnsupportedOperationException => }
  }

  override def renameTempFile(from: Path, to: Path, overwriteIfPossible: Boolean): Unit =
    if (!isLocal) super.renameTempFile(from, to, overwriteIfPossible)
    else {
      val (source, target) = (local(from), local(to))
      if (overwriteIfPossible) Files.move(source, target, StandardCopyOption.ATOMIC_MOVE)
      else moveIfAbsent(source, target)
      if (flushes) flush(target.getParent)
      // A checksum that Hadoop wrote for an earlier file of this name would not match.
      Files.deleteIfExists(target.resolveSibling(s".${to.getName}.crc"))
    }

  /** A hard link fails atomically if its name is taken; a rename would overwrite. */
  private def moveIfAbsent(source: LocalPath, target: LocalPath): Unit =
    try {
      Files.createLink(target, source)
      Files.delete(source)
    } catch {
      case e: java.nio.file.FileAlreadyExistsException =>
        throw new FileAlreadyExistsException(s"$target exists").initCause(e)
      // A file system without hard links.
      case _: UnsupportedOperationException | _: java.nio.file.FileSystemException =>
        if (Files.exists(target)) throw new FileAlreadyExistsException(s"$target exists")
        Files.move(source, target, StandardCopyOption.ATOMIC_MOVE)
    }

  override def mkdirs(directory: Path): Unit =
    if (!isLocal) super.mkdirs(directory) else createDirectory(local(directory))

  override def exists(file: Path): Boolean =
    if (!isLocal) super.exists(file) else Files.exists(local(file))

  override def createCheckpointDirectory(): Path =
    if (!isLocal) super.createCheckpointDirectory()
    else {
      createDirectory(local(path))
      fs.makeQualified(path)
    }

  private def local(file: Path): LocalPath = Paths.get(file.toUri.getPath)

  /** Flushes a file's content, or the names in a directory. */
  private def flush(path: LocalPath): Unit =
    try Using.resource(FileChannel.open(path, Open.READ))(_.force(true))
    catch { case _: java.nio.file.NoSuchFileException => } // another task has removed an old file
}

object LocalCheckpointFiles {
  /** A setting for disks that lose nothing, and for runs that need not survive a power cut. */
  val Flush = "spark.keyfold.flushState"
}
