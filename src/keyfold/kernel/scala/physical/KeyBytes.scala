package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.unsafe.Platform

/**
 * The order of keys by the bytes of their rows. The state store keeps keys in this order, so that keys which
 * arrive in it are read and written next to each other.
 */
object KeyBytes {
  private def byte(key: UnsafeRow, i: Int): Byte = Platform.getByte(key.getBaseObject, key.getBaseOffset + i)

  /** The length of the common prefix of two keys, at most `limit`. */
  def commonPrefix(a: UnsafeRow, b: UnsafeRow, limit: Int): Int = {
    val n = math.min(limit, b.getSizeInBytes)
    var i = 0
    while (i < n && byte(a, i) == byte(b, i)) i += 1
    i
  }

  /**
   * The eight bytes from an offset as an unsigned number that orders as they do; zeros follow a key's end.
   */
  def eightBytes(key: UnsafeRow, offset: Int): Long =
    if (offset + 8 <= key.getSizeInBytes) {
      java.lang.Long.reverseBytes(Platform.getLong(key.getBaseObject, key.getBaseOffset + offset))
    } else (0 until 8).foldLeft(0L) { (prefix, i) =>
      (prefix << 8) | (if (offset + i < key.getSizeInBytes) byte(key, offset + i) & 0xff else 0)
    }

  def compare(a: UnsafeRow, b: UnsafeRow): Int = {
    val n = math.min(a.getSizeInBytes, b.getSizeInBytes)
    val i = commonPrefix(a, b, n)
    if (i < n) java.lang.Byte.compareUnsigned(byte(a, i), byte(b, i))
    else Integer.compare(a.getSizeInBytes, b.getSizeInBytes)
  }
}
