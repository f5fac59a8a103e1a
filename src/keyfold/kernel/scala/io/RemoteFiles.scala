package org.apache.spark.sql.execution.keyfold.io

import java.io.{FileNotFoundException, IOException, InputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.security.{DigestInputStream, MessageDigest}
import java.util.UUID

import scala.util.{Try, Using}

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.Path.getPathWithoutSchemeAndAuthority
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, FileStatus, Path}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.RenameHelperMethods
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf

/**
 * Small files below a directory of any file system that Spark can write, for Python. A file appears whole or
 * not at all, and `putNew` never overwrites one.
 *
 * Files are written under a temporary name and renamed by Spark's own manager of checkpoint files. An object
 * store has no rename: an object appears when its upload ends, and `putNew` makes the upload conditional.
 */
class RemoteFiles(session: SparkSession, root: String) {
  private val conf = {
    val conf = session.sessionState.newHadoopConf()
    // The manager that Spark takes for the path's file system, not the one that keyfold sets for local disks.
    conf.unset(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key)
    conf
  }
  private val system = new Path(root).getFileSystem(conf)

  /** The root; with the host of the default file system if it has none, as `hdfs:///path`. */
  val uri: String = {
    // Not the system's own method: a cached system may know of another default.
    val qualified = new Path(root).makeQualified(system.getUri, system.getWorkingDirectory)
    if (qualified.toUri.getAuthority == new Path(root).toUri.getAuthority) root else qualified.toString
  }
  private val base = new Path(uri)
  private val uploads = system.hasPathCapability(base, RemoteFiles.Conditional)
  if (system.getScheme == "s3a" && !uploads) {
    throw new IOException(s"$root can't be written safely: conditional uploads are turned off " +
      "(fs.s3a.create.conditional.enabled), so two writers could overwrite each other's files")
  }
  private lazy val manager =
    CheckpointFileManager.create(base, conf).asInstanceOf[CheckpointFileManager with RenameHelperMethods]

  /** Whether a rename replaces a file: Hadoop's `FileSystem` leaves the old one and reports nothing. */
  private lazy val replaces = manager.isInstanceOf[FileContextBasedCheckpointFileManager]

  /** The content of a file; null if there is none. */
  def read(name: String): Array[Byte] = opened(path(name))(_.readAllBytes()).orNull

  /** Copies a file to a new one on the local disk; false if there is none. */
  def download(name: String, target: String): Boolean =
    opened(path(name))(Files.copy(_, Paths.get(target), StandardCopyOption.REPLACE_EXISTING)).isDefined

  /** Reads a file, if it exists; again if it is replaced meanwhile, whose rest S3 and HDFS refuse. */
  private def opened[A](file: Path, attempts: Int = 5)(read: InputStream => A): Option[A] =
    try Some(Using.resource(system.open(file))(read))
    catch {
      case _: FileNotFoundException => None
      case _: IOException if attempts > 1 => opened(file, attempts - 1)(read)
    }

  /** The names in a directory as JSON, without hidden ones; none if there is no such directory. */
  def list(name: String): String = {
    val directory = getPathWithoutSchemeAndAuthority(system.makeQualified(path(name)))
    // Asked for a file, a file system lists that file.
    val inside = listed(path(name)).map(_.getPath)
      .filter(file => getPathWithoutSchemeAndAuthority(file.getParent) == directory)
    new ObjectMapper().writeValueAsString(inside.map(_.getName).filterNot(_.startsWith(".")))
  }

  /** The sizes of all files below a directory by their names relative to it, as JSON; without hidden ones. */
  def files(name: String): String = {
    val directory = getPathWithoutSchemeAndAuthority(system.makeQualified(path(name)))
    val top = directory.toString.stripSuffix("/") + "/"
    val sizes = new java.util.TreeMap[String, Long]
    def walk(directory: Path): Unit =
      listed(directory).filterNot(_.getPath.getName.startsWith(".")).foreach { found =>
        val name = getPathWithoutSchemeAndAuthority(found.getPath).toString.stripPrefix(top)
        if (found.isDirectory) walk(found.getPath) else sizes.put(name, found.getLen)
      }
    walk(path(name))
    new ObjectMapper().writeValueAsString(sizes)
  }

  /** The SHA-256 of a file's content; null if there is none. */
  def sha256(name: String): String = opened(path(name)) { in =>
    val digest = MessageDigest.getInstance("SHA-256")
    new DigestInputStream(in, digest).transferTo(OutputStream.nullOutputStream())
    digest.digest().map(b => f"$b%02x").mkString
  }.orNull

  /** Copies a file to another name; false if there is none. */
  def copy(name: String, target: String): Boolean =
    opened(path(name))(in => write(path(target), in.transferTo(_))).isDefined

  /** Copies a file of the local disk. */
  def upload(source: String, name: String): Unit = write(path(name), Files.copy(Paths.get(source), _))

  /** Writes a file of any size, which appears when it is whole. */
  private def write(file: Path, content: OutputStream => Unit): Unit =
    if (uploads || !replaces) upload(file, content, None)
    else rename(file, content, overwrite = true, durable = true)

  /** Writes a file; `durable`: it must survive a power cut on all machines that have it. */
  def put(name: String, content: Array[Byte], durable: Boolean): Unit =
    if (uploads || !replaces) upload(path(name), _.write(content), None)
    else rename(path(name), _.write(content), overwrite = true, durable)

  /** Whether the file was written; it is not if the name is taken. */
  def putNew(name: String, content: Array[Byte]): Boolean =
    if (uploads) uploadNew(path(name), content)
    else try {
      rename(path(name), _.write(content), overwrite = false, durable = true)
      true
    } catch { case _: FileAlreadyExistsException => false }

  /** Deletes a file, or a directory with all that it holds, if it exists. */
  def delete(name: String): Unit =
    try system.delete(path(name), true) catch { case _: FileNotFoundException => }

  /** Creates a directory; an object store has no empty ones, and keeps a mark in its place. */
  def directory(name: String): Unit = system.mkdirs(path(name))

  /** The bytes of a file, or of all files below a directory; 0 if it does not exist. */
  def size(name: String): Long =
    try system.getContentSummary(path(name)).getLength catch { case _: FileNotFoundException => 0L }

  /** Deletes the temporary files in a directory. */
  def sweep(name: String): Unit =
    listed(path(name)).map(_.getPath).filter(RemoteFiles.isTemporary).foreach(system.delete(_, false))

  private def listed(directory: Path): Array[FileStatus] =
    try system.listStatus(directory) catch { case _: FileNotFoundException => Array.empty[FileStatus] }

  private def path(name: String) = if (name.isEmpty) base else new Path(base, name)

  private def rename(
      file: Path, content: OutputStream => Unit, overwrite: Boolean, durable: Boolean): Unit = {
    val temporary = RemoteFiles.temporary(file)
    try {
      Using.resource(create(temporary)) { out =>
        content(out)
        // Otherwise HDFS has the content in the memory of several machines, and on disk a while later.
        if (durable) out.hsync()
      }
      manager.renameTempFile(temporary, file, overwrite)
    } catch {
      case e: Throwable =>
        Try(manager.delete(temporary))
        throw e
    }
  }

  private def create(file: Path): FSDataOutputStream =
    try manager.createTempFile(file)
    catch {
      case _: FileNotFoundException => // there is no directory yet
        manager.mkdirs(file.getParent)
        manager.createTempFile(file)
    }

  private def uploadNew(file: Path, content: Array[Byte]): Boolean = {
    val id = UUID.randomUUID.toString
    try {
      upload(file, _.write(content), Some(id))
      true
    } catch {
      // Refused; or the answer to a successful request was lost, and its repetition was refused.
      case e: IOException => uploadedAs(file).getOrElse(throw e) == id
    }
  }

  private def upload(file: Path, content: OutputStream => Unit, onlyNewAs: Option[String]): Unit = {
    val builder = system.createFile(file)
    builder.create()
    builder.recursive()
    builder.overwrite(true)
    onlyNewAs.foreach { id =>
      builder.must(RemoteFiles.Conditional, true)
      builder.opt(s"fs.s3a.create.header.${RemoteFiles.Upload}", id)
    }
    val out = builder.build().asInstanceOf[FSDataOutputStream]
    try content(out)
    catch {
      case e: Throwable =>
        out.abort() // a close would upload a part of the content
        throw e
    }
    out.close()
  }

  /** The id of the upload that a file is of; empty if it has none, nothing if there is no such file. */
  private def uploadedAs(file: Path): Option[String] =
    if (!system.exists(file)) None
    else Some(Try(new String(system.getXAttr(file, s"header.${RemoteFiles.Upload}"), UTF_8)).getOrElse(""))
}

object RemoteFiles {
  /** An option of `createFile`, and the capability of file systems that have it. */
  private val Conditional = "fs.option.create.conditional.overwrite"
  private def temporary(file: Path) = new Path(file.getParent, s".${file.getName}.${UUID.randomUUID}.tmp")
  private def isTemporary(file: Path) = file.getName.startsWith(".") && file.getName.endsWith(".tmp")

  /** Where an uploaded file has its id. */
  private val Upload = "keyfold-upload"
}
