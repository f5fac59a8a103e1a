package org.apache.spark.sql.keyfold

import java.nio.file.{Files, Path => LocalPath, Paths, StandardCopyOption}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/**
 * Checkpoint files on a local disk, by the system's own calls. Hadoop starts a process for each permission it
 * sets and each link it looks for, which is half of the time that a small batch takes. Paths of other file
 * systems go Hadoop's way.
 */
class LocalFiles(path: Path, conf: Configuration) extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def createTempFile(file: Path): FSDataOutputStream =
    if (!isLocal) super.createTempFile(file)
    else {
      val target = local(file)
      Files.createDirectories(target.getParent)
      new FSDataOutputStream(new java.io.BufferedOutputStream(Files.newOutputStream(target), 1 << 16), null)
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
    if (!isLocal) super.mkdirs(directory) else Files.createDirectories(local(directory))

  override def exists(file: Path): Boolean =
    if (!isLocal) super.exists(file) else Files.exists(local(file))

  override def createCheckpointDirectory(): Path =
    if (!isLocal) super.createCheckpointDirectory()
    else {
      Files.createDirectories(local(path))
      fs.makeQualified(path)
    }

  private def local(file: Path): LocalPath = Paths.get(file.toUri.getPath)
}
