package org.apache.spark.sql.keyfold.spark

import org.apache.spark.{SparkContext, SparkEnv}

/** How much of a JVM's heap one of the tasks has that it runs side by side. */
object SparkTaskMemory {
  def heap: Long = Runtime.getRuntime.maxMemory / slots

  private def slots: Int = {
    val conf = SparkEnv.get.conf
    val master = conf.get("spark.master", "local")
    val cores =
      if (master.startsWith("local")) SparkContext.numDriverCores(master, conf)
      else conf.getInt("spark.executor.cores", Runtime.getRuntime.availableProcessors)
    (cores / conf.getInt("spark.task.cpus", 1)).max(1)
  }
}
