package org.apache.spark.sql.keyfold.spark.files

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapred.JobConf

/** Hadoop's settings as they are sent to tasks. */
class SparkHadoopSettingsSuite extends munit.FunSuite {
  private def sent(settings: Configuration): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    settings.write(new DataOutputStream(bytes))
    bytes.toByteArray
  }

  private def values(settings: Configuration): Map[String, String] =
    settings.iterator().asScala.map(e => e.getKey -> e.getValue).toMap

  test("settings without origins have the same values, also as copies and where they are received") {
    // Hadoop's classes for jobs add settings when they are loaded.
    Class.forName(classOf[JobConf].getName)
    val settings = new Configuration
    settings.set("keyfold.test", "before")
    val (before, whole) = (values(settings), sent(settings).length)
    SparkHadoopSettings.forgetOrigins(settings)
    assertEquals(values(settings), before)
    assert(settings.getPropertySources("keyfold.test") == null)
    val copy = new Configuration(settings)
    assert(sent(copy).length < 0.7 * whole, s"${sent(copy).length} of $whole bytes")
    copy.set("keyfold.test", "after")
    val received = new Configuration(false)
    received.readFields(new DataInputStream(new ByteArrayInputStream(sent(copy))))
    assertEquals(values(received), before + ("keyfold.test" -> "after"))
    assertEquals(settings.get("keyfold.test"), "before")
  }
}
