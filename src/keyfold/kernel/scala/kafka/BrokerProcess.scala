package org.apache.spark.sql.keyfold.kafka

import java.io.PrintStream

/**
 * A Kafka broker that ends with the process that started it, even if that one is killed: standard input is
 * a pipe from it. Kafka's classes are on the class path of this process alone.
 */
object BrokerProcess {
  private val endSeconds = 10L

  /** The broker's properties file, then the arguments of `StorageTool` for a new directory. */
  def main(arguments: Array[String]): Unit = {
    endWithStandardInput()
    if (arguments.length > 1) format(arguments.tail)
    Class.forName("kafka.Kafka").getMethod("main", classOf[Array[String]]).invoke(null, arguments.take(1))
  }

  private def endWithStandardInput(): Unit = {
    val watching = new Thread(() => {
      while (System.in.read() >= 0) {}
      halted()
      System.exit(0)
    }, "keyfold-parent")
    watching.setDaemon(true)
    watching.start()
  }

  /** A broker that has not started yet may never finish its orderly end. */
  private def halted(): Unit = {
    val halting = new Thread(() => {
      Thread.sleep(endSeconds * 1000)
      Runtime.getRuntime.halt(1)
    }, "keyfold-halt")
    halting.setDaemon(true)
    halting.start()
  }

  private def format(arguments: Array[String]): Unit = {
    val tool = Class.forName("kafka.tools.StorageTool")
    val execute = tool.getMethod("execute", classOf[Array[String]], classOf[PrintStream])
    val status = execute.invoke(null, arguments, System.out).asInstanceOf[Int]
    if (status != 0) System.exit(status)
  }
}
