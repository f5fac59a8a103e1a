package org.apache.spark.sql.keyfold.spark.files

import java.io.{InputStream, OutputStream}

import org.apache.hadoop.fs.Path

import org.apache.spark.deploy.SparkHadoopUtil

/** Files of any file system, with the settings that Spark has given this process, driver or executor. */
object SparkHadoopFiles {
  def create(uri: String): OutputStream = {
    val path = new Path(uri)
    system(path).create(path, true)
  }

  def open(uri: String): InputStream = {
    val path = new Path(uri)
    system(path).open(path)
  }

  /** Deletes a file, or a directory and all that is in it. */
  def delete(path: Path): Unit = system(path).delete(path, true)

  private def system(path: Path) = path.getFileSystem(SparkHadoopUtil.get.conf)
}
