package org.apache.spark.sql.keyfold.spark

import java.io.OutputStream

import org.apache.hadoop.fs.Path

import org.apache.spark.deploy.SparkHadoopUtil

/** Files of any file system, with the settings that Spark has given this process, driver or executor. */
object SparkHadoopFiles {
  def create(uri: String): OutputStream = {
    val path = new Path(uri)
    path.getFileSystem(SparkHadoopUtil.get.conf).create(path, true)
  }
}
