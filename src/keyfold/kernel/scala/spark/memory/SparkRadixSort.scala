package org.apache.spark.sql.keyfold.spark.memory

import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/** The positions 0 to n-1 in the order of their prefixes. */
final class SortedPositions(entries: LongArray, start: Int) {
  def position(n: Int): Int = entries.get(start + n * 2).toInt
  def prefix(n: Int): Long = entries.get(start + n * 2 + 1)
}

/** Spark's radix sort of pairs of a pointer and a key prefix, here a position and a prefix. */
object SparkRadixSort {
  /** Sorts by prefix, unsigned; the sort is stable. */
  def sort(n: Int, prefix: Int => Long): SortedPositions = {
    // Two longs per entry, and as much again that the sort works in.
    val entries = new LongArray(MemoryBlock.fromLongArray(new Array[Long](math.max(4, n * 4))))
    var i = 0
    while (i < n) {
      entries.set(i * 2, i)
      entries.set(i * 2 + 1, prefix(i))
      i += 1
    }
    new SortedPositions(entries, RadixSort.sortKeyPrefixArray(entries, 0, n, 0, 7, false, false))
  }
}
