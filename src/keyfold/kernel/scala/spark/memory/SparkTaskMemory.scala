package org.apache.spark.sql.keyfold.spark.memory

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}

/** How much of a JVM's heap one of the tasks has that it runs side by side. */
object SparkTaskMemory {
  def heap: Long = Runtime.getRuntime.maxMemory / slots

  private def slots: Int =
    Option(SparkEnv.get).map(env => slots(env.conf)).getOrElse(Runtime.getRuntime.availableProcessors)

  private def slots(conf: SparkConf): Int = {
    val master = conf.get("spark.master", "local")
    val cores =
      if (master.startsWith("local")) SparkContext.numDriverCores(master, conf)
      else conf.getInt("spark.executor.cores", Runtime.getRuntime.availableProcessors)
    (cores / conf.getInt("spark.task.cpus", 1)).max(1)
  }
}
