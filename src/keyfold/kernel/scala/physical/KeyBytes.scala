package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/** The bytes of a key's row, which is the order that the state store keeps keys in: neighbours are read and written together. */
object KeyBytes {
  private def byte(k: UnsafeRow, i: Int): Byte = Platform.getByte(k.getBaseObject, k.getBaseOffset + i)

  /** How many of the first `most` bytes are the same. */
  def common(a: UnsafeRow, b: UnsafeRow, most: Int): Int = {
    val n = math.min(most, b.getSizeInBytes)
    var i = 0
    while (i < n && byte(a, i) == byte(b, i)) i += 1
    i
  }

  def eight(k: UnsafeRow, from: Int): Long =
    if (from + 8 <= k.getSizeInBytes) java.lang.Long.reverseBytes(Platform.getLong(k.getBaseObject, k.getBaseOffset + from))
    else (0 until 8).foldLeft(0L)((v, i) => (v << 8) | (if (from + i < k.getSizeInBytes) byte(k, from + i) & 0xff else 0))

  def compare(a: UnsafeRow, b: UnsafeRow): Int = {
    val n = math.min(a.getSizeInBytes, b.getSizeInBytes)
    val i = common(a, b, n)
    if (i < n) java.lang.Byte.compareUnsigned(byte(a, i), byte(b, i)) else Integer.compare(a.getSizeInBytes, b.getSizeInBytes)
  }

  /** Places in the order of their prefixes; those of one prefix as they were. */
  def sorted(n: Int, prefix: Int => Long): SortedPositions = {
    val array = new LongArray(MemoryBlock.fromLongArray(new Array[Long](math.max(4, n * 4))))
    var i = 0
    while (i < n) { array.set(i * 2, i); array.set(i * 2 + 1, prefix(i)); i += 1 }
    new SortedPositions(array, RadixSort.sortKeyPrefixArray(array, 0, n, 0, 7, false, false))
  }
}

class SortedPositions(array: LongArray, start: Int) {
  def at(n: Int): Int = array.get(start + n * 2).toInt
  def prefix(n: Int): Long = array.get(start + n * 2 + 1)
}
