package org.apache.spark.sql.keyfold.log

import java.io.{BufferedOutputStream, OutputStream}
import java.net.URI
import java.nio.channels.{Channels, FileChannel}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.attribute.PosixFilePermissions.asFileAttribute
import java.nio.file.{Files, Path => LocalPath, Paths, StandardOpenOption => Open}
import java.util.zip.CRC32

import org.apache.parquet.io.{OutputFile, PositionOutputStream}

import org.apache.spark.sql.keyfold.spark.files.SparkHadoopFiles

/**
 * A part of a log as it is written: how many bytes it has, and their checksum. On a local disk it is the
 * owner's alone, and its content is on the disk when it is closed; Hadoop would start a process for its
 * permissions.
 */
class PartFile(uri: String) extends OutputFile {
  private val sum = new CRC32
  private var written = 0L

  def bytes: Long = written
  def checksum: String = f"crc32:${sum.getValue}%08x"

  override def createOrOverwrite(blockSizeHint: Long): PositionOutputStream = create(blockSizeHint)
  override def supportsBlockSize(): Boolean = false
  override def defaultBlockSize(): Long = 0L
  override def getPath: String = uri

  override def create(blockSizeHint: Long): PositionOutputStream = {
    val (out, finish) = PartFile.local(uri).fold(remote)(local)
    new PositionOutputStream {
      override def getPos: Long = written
      override def write(b: Int): Unit = { out.write(b); sum.update(b); written += 1 }
      override def write(b: Array[Byte], from: Int, length: Int): Unit = {
        out.write(b, from, length)
        sum.update(b, from, length)
        written += length
      }
      override def flush(): Unit = out.flush()
      override def close(): Unit = finish()
    }
  }

  private def local(path: LocalPath): (OutputStream, () => Unit) = {
    val options = java.util.Set.of(Open.CREATE, Open.TRUNCATE_EXISTING, Open.WRITE)
    val channel = FileChannel.open(path, options, asFileAttribute(PartFile.privateFile))
    val out = new BufferedOutputStream(Channels.newOutputStream(channel), 1 << 16)
    (out, () => try { out.flush(); channel.force(true) } finally channel.close())
  }

  private def remote: (OutputStream, () => Unit) = {
    val out = SparkHadoopFiles.create(uri)
    (out, () => out.close())
  }
}

object PartFile {
  private val privateFile = PosixFilePermissions.fromString("rw-------")
  private val privateDirectory = PosixFilePermissions.fromString("rwx------")

  /** Creates the directory of a batch's parts where the file system has directories of its own. */
  def createDirectory(uri: String): Unit =
    local(uri).foreach(Files.createDirectories(_, asFileAttribute(privateDirectory)))

  /** Makes the names of files in a local directory, and its own, last through a power cut. */
  def sync(uri: String): Unit = local(uri).foreach { directory =>
    Seq(directory, directory.getParent).foreach { path =>
      val channel = FileChannel.open(path, Open.READ)
      try channel.force(true) finally channel.close()
    }
  }

  private def local(uri: String): Option[LocalPath] =
    Option.when(uri.startsWith("file:/"))(Paths.get(new URI("file", null, uri.stripPrefix("file:")
      .replaceFirst("^//+", "/"), null)))
}
