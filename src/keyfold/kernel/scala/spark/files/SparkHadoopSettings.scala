package org.apache.spark.sql.keyfold.spark.files

import java.lang.reflect.Field

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapred.JobConf

/** Hadoop's settings, which Spark sends to the executors up to three times per batch. */
object SparkHadoopSettings {
  // Without this field the settings are sent as Hadoop has them.
  private val origins: Option[Field] = Try {
    val found = classOf[Configuration].getDeclaredField("updatingResource")
    found.setAccessible(true)
    found
  }.toOption

  /**
   * Forgets which file or program each setting came from. Hadoop remembers it for debugging alone, and
   * compresses it, setting by setting, whenever the settings are sent: a tenth of what a small batch costs.
   * Copies of the settings, which is what Spark sends, don't have it either. Where the classes of HDFS or S3
   * are loaded later, Hadoop reads its files again, and remembers.
   */
  def forgetOrigins(settings: Configuration): Unit = {
    // Loading this class adds files to the settings: they would be read again, with their origins.
    Class.forName(classOf[JobConf].getName)
    // Reads the files, if nobody has yet.
    settings.size()
    origins.map(_.get(settings)).foreach {
      case known: java.util.Map[_, _] => known.clear()
      case _ =>
    }
  }
}
