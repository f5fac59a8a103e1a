package org.apache.spark.sql.keyfold.spark.formats

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.sparkproject.spark_core.protobuf.{DescriptorProtos, Descriptors, DynamicMessage}
import org.sparkproject.spark_core.protobuf.{InvalidProtocolBufferException, Message}

/** Google's library for Protobuf, which Spark carries under a name of its own. */
object SparkProtobuf {
  type Descriptor = Descriptors.Descriptor
  type Field = Descriptors.FieldDescriptor
  type Parsed = Message
  type EnumValue = Descriptors.EnumValueDescriptor
  type Bytes = org.sparkproject.spark_core.protobuf.ByteString
  type BadBytes = InvalidProtocolBufferException

  /** The files of a descriptor set, with those that they import before them; None if it is none. */
  def files(set: Array[Byte]): Option[Seq[Descriptors.FileDescriptor]] = Try {
    val protos = DescriptorProtos.FileDescriptorSet.parseFrom(set).getFileList.asScala.toSeq
    val byName = protos.map(p => p.getName -> p).toMap
    val built = scala.collection.mutable.LinkedHashMap.empty[String, Descriptors.FileDescriptor]
    def build(name: String): Descriptors.FileDescriptor = built.getOrElse(name, {
      val proto = byName(name)
      val imports = proto.getDependencyList.asScala.map(build).toArray
      val file = Descriptors.FileDescriptor.buildFrom(proto, imports)
      built(name) = file
      file
    })
    protos.map(p => build(p.getName))
  }.toOption.filter(_.nonEmpty)

  /** All messages of a file, also those within messages. */
  def messages(file: Descriptors.FileDescriptor): Seq[Descriptor] = {
    def nested(d: Descriptor): Seq[Descriptor] = d +: d.getNestedTypes.asScala.toSeq.flatMap(nested)
    file.getMessageTypes.asScala.toSeq.flatMap(nested)
  }

  /** The message at a path of positions: in the file, then within each message. */
  def at(file: Descriptors.FileDescriptor, path: Seq[Int]): Option[Descriptor] = Try {
    path.tail.foldLeft(file.getMessageTypes.get(path.head))((d, i) => d.getNestedTypes.get(i))
  }.toOption

  def parse(descriptor: Descriptor, bytes: Array[Byte], from: Int): Parsed = {
    val builder = DynamicMessage.newBuilder(descriptor)
    builder.mergeFrom(bytes, from, bytes.length - from)
    builder.buildPartial()
  }
}
