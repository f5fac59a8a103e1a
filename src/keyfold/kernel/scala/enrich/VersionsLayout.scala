package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.keyfold.state.StructPacking
import org.apache.spark.sql.types._

/** The state of a table's key from a time on, in microseconds. */
case class Version(from: Long, state: InternalRow)

/** The versions of a key, oldest first; `pruned`: there were older ones. */
case class Versions(pruned: Boolean, all: ArrayBuffer[Version]) {
  def newest: Version = all.last
  def asOf(time: Long): Option[Version] = all.reverseIterator.find(_.from <= time)
}

object Versions { def empty: Versions = Versions(pruned = false, new ArrayBuffer[Version]) }

/** The versions of a key as state; `version` is the schema of a version's state. */
case class VersionsLayout(version: StructType) {
  private val packing = StructPacking(new StructType().add("from", LongType).add("state", version))
  val schema: StructType = new StructType().add("pruned", BooleanType).add("versions", packing.dataType)

  def decode(stored: InternalRow): Versions = {
    val versions = packing.unpack(stored, 1).map { v =>
      Version(v.getLong(0), v.getStruct(1, version.length).copy())
    }
    Versions(stored.getBoolean(0), versions)
  }

  def encode(versions: Versions): InternalRow = {
    val packed = packing.pack(versions.all.map { v =>
      new GenericInternalRow(Array[Any](v.from, v.state)): InternalRow
    })
    new GenericInternalRow(Array[Any](versions.pruned, packed))
  }
}
