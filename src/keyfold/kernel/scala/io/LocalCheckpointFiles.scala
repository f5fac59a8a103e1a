package org.apache.spark.sql.execution.keyfold.io

import java.nio.channels.Channels
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.attribute.PosixFilePermissions.asFileAttribute
import java.nio.file.{Files, Path => LocalPath, Paths, StandardCopyOption, StandardOpenOption => Open}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/**
 * Checkpoint files on a local disk, by the system's own calls. Hadoop starts a process for each permission it
 * sets and each link it looks for, which is half of the time that a small batch takes. Paths of other file
 * systems go Hadoop's way. State is for its owner alone: what is made here is private, whatever the umask.
 */
class LocalCheckpointFiles(path: Path, conf: Configuration) extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def createTempFile(file: Path): FSDataOutputStream =
    if (!isLocal) super.createTempFile(file)
    else {
      val target = local(file)
      make(target.getParent)
      // A snapshot's list of files comes after the files, which Hadoop has copied with a mode of its own.
      if (file.getName.contains(".zip")) copied(target.getParent).foreach(makePrivate)
      val out = Channels.newOutputStream(Files.newByteChannel(target, options, asFileAttribute(ownFile)))
      new FSDataOutputStream(new java.io.BufferedOutputStream(out, 1 << 16), null)
    }

  private def options = java.util.Set.of(Open.CREATE, Open.TRUNCATE_EXISTING, Open.WRITE)
  private val ownFile = PosixFilePermissions.fromString("rw-------")
  private val ownDirectory = PosixFilePermissions.fromString("rwx------")

  private def make(directory: LocalPath): LocalPath =
    Files.createDirectories(directory, asFileAttribute(ownDirectory))

  /** Where the state store keeps what snapshots share, with all that is there. */
  private def copied(state: LocalPath): Seq[LocalPath] =
    Seq("SSTs", "logs").map(state.resolve).filter(Files.isDirectory(_)).flatMap { directory =>
      directory +: Using(Files.newDirectoryStream(directory))(_.asScala.toSeq).getOrElse(Nil)
    }

  private def makePrivate(path: LocalPath): Unit = {
    val own = if (Files.isDirectory(path)) ownDirectory else ownFile
    // Another instance may be removing old files, and not every disk has modes.
    try if (Files.getPosixFilePermissions(path) != own) Files.setPosixFilePermissions(path, own)
    catch { case _: java.io.IOException | _: UnsupportedOperationException => }
  }

  override def renameTempFile(from: Path, to: Path, overwriteIfPossible: Boolean): Unit =
    if (!isLocal) super.renameTempFile(from, to, overwriteIfPossible)
    else {
      val (source, target) = (local(from), local(to))
      if (overwriteIfPossible) Files.move(source, target, StandardCopyOption.ATOMIC_MOVE)
      else alone(source, target)
      // One that Hadoop left beside an earlier file of this name would not fit.
      Files.deleteIfExists(target.resolveSibling(s".${to.getName}.crc"))
    }

  /** A link fails if its name is taken, in one step; a rename would overwrite. */
  private def alone(source: LocalPath, target: LocalPath): Unit =
    try {
      Files.createLink(target, source)
      Files.delete(source)
    } catch {
      case e: java.nio.file.FileAlreadyExistsException =>
        throw new FileAlreadyExistsException(s"$target exists").initCause(e)
      // A file system without links.
      case _: UnsupportedOperationException | _: java.nio.file.FileSystemException =>
        if (Files.exists(target)) throw new FileAlreadyExistsException(s"$target exists")
        Files.move(source, target, StandardCopyOption.ATOMIC_MOVE)
    }

  override def mkdirs(directory: Path): Unit =
    if (!isLocal) super.mkdirs(directory) else make(local(directory))

  override def exists(file: Path): Boolean =
    if (!isLocal) super.exists(file) else Files.exists(local(file))

  override def createCheckpointDirectory(): Path =
    if (!isLocal) super.createCheckpointDirectory()
    else {
      make(local(path))
      fs.makeQualified(path)
    }

  private def local(file: Path): LocalPath = Paths.get(file.toUri.getPath)
}
