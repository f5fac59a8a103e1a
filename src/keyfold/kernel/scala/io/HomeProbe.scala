package org.apache.spark.sql.execution.keyfold.io

import java.net.InetAddress
import java.util.UUID

import scala.util.{Failure, Success, Try, Using}

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.spark.files.SparkHadoopFiles

/**
 * Whether executors see the home that the driver sees: each task reads a file that the driver has written,
 * and writes one that the driver then looks for.
 */
object HomeProbe {
  /** What failed, by host; empty if nothing did. */
  def failures(session: SparkSession, home: String, tasks: Int): Map[String, String] = {
    val directory = s"$home/.probe-${UUID.randomUUID()}"
    val token = UUID.randomUUID().toString
    try {
      write(s"$directory/driver", token)
      val found = session.sparkContext.parallelize(0 until tasks, tasks).map { task =>
        InetAddress.getLocalHost.getHostName -> attempt(directory, token, task)
      }.collect()
      val failed = found.collect { case (host, Some(why)) => host -> why }
      val unseen = found.indices.collect {
        case i if found(i)._2.isEmpty && !Try(read(s"$directory/$i")).toOption.contains(token) =>
          found(i)._1 -> "the driver does not see what is written there"
      }
      (failed ++ unseen).toMap
    } finally Try(delete(directory))
  }

  private def attempt(directory: String, token: String, task: Int): Option[String] =
    Try(read(s"$directory/driver")) match {
      case Failure(e) => Some(s"can't read what the driver has written: ${e.getMessage}")
      case Success(other) if other != token => Some("reads something else than the driver has written")
      case _ =>
        Try(write(s"$directory/$task", token)).failed.toOption.map(e => s"can't write: ${e.getMessage}")
    }

  private def write(file: String, text: String): Unit =
    Using.resource(SparkHadoopFiles.create(file))(_.write(text.getBytes("UTF-8")))

  private def read(file: String): String =
    Using.resource(SparkHadoopFiles.open(file))(in => new String(in.readAllBytes(), "UTF-8"))

  private def delete(directory: String): Unit = SparkHadoopFiles.delete(new Path(directory))
}
