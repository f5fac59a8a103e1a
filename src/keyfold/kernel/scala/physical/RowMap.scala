package org.apache.spark.sql.keyfold.physical

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/**
 * A hash map of rows to rows of `width` fields, which can be changed in place. Keys and values lie one after
 * the other in one array, so that a lookup touches a slot and a record, where a map of objects would follow
 * half a dozen references; and the garbage collector has nothing to follow at all.
 */
final class RowMap(width: Int) {
  // A slot: the key's hash in the upper half, and in the lower half one more than where its record begins.
  private var slots = new Array[Long](RowMap.FirstSlots)
  // Records: a word with both sizes, the key, the value. Sizes of rows are multiples of eight bytes.
  private var words = new Array[Long](RowMap.FirstWords)
  private var (count, end) = (0, 0)
  // Where the last `get` ended that found nothing.
  private var (missedHash, missedSlot) = (0, 0)
  private val found = new UnsafeRow(width)
  private var lastRecord = 0

  /** The record of the key that was last found or added. */
  def last: Int = lastRecord

  def size: Int = count

  /** About how many bytes the map takes: each key has two to four slots, and the array grows by half. */
  def bytes: Long = 8L * (end + (end >> 1) + 3L * count)

  /** The value of a key, until the next call; null if the key is not there. */
  def get(key: UnsafeRow): UnsafeRow = {
    val hash = key.hashCode
    var at = hash & (slots.length - 1)
    var slot = slots(at)
    while (slot != 0) {
      if ((slot >>> 32).toInt == hash) {
        val record = slot.toInt - 1
        if (hasKey(record, key)) {
          lastRecord = record
          return value(record, found)
        }
      }
      at = (at + 1) & (slots.length - 1)
      slot = slots(at)
    }
    missedHash = hash
    missedSlot = at
    null
  }

  /** Adds a key that the last call, a `get`, has not found. */
  def add(key: UnsafeRow, value: UnsafeRow): Unit = {
    val (keySize, valueSize) = (key.getSizeInBytes, value.getSizeInBytes)
    val next = Math.addExact(end, 1 + (keySize + valueSize) / 8)
    if (next > words.length) words = Arrays.copyOf(words, next.max(words.length + (words.length >> 1)))
    words(end) = (keySize.toLong << 32) | valueSize
    key.writeToMemory(words, address(end + 1))
    value.writeToMemory(words, address(end + 1) + keySize)
    slots(missedSlot) = (missedHash.toLong << 32) | (end + 1)
    lastRecord = end
    end = next
    count += 1
    if (count * 2 > slots.length) rehash()
  }

  def clear(): Unit = {
    Arrays.fill(slots, 0L)
    count = 0
    end = 0
  }

  /** Where each record is, in the order in which they were added, as long as nothing else is. */
  def records: Array[Int] = {
    val starts = new Array[Int](count)
    var (i, record) = (0, 0)
    while (i < count) {
      starts(i) = record
      record += 1 + (keySize(record) + valueSize(record)) / 8
      i += 1
    }
    starts
  }

  /** Makes a row refer to the key of a record. */
  def key(record: Int, row: UnsafeRow): UnsafeRow = {
    row.pointTo(words, keyAt(record), keySize(record))
    row
  }

  /** Makes a row refer to the value of a record. */
  def value(record: Int, row: UnsafeRow): UnsafeRow = {
    row.pointTo(words, keyAt(record) + keySize(record), valueSize(record))
    row
  }

  private def keySize(record: Int): Int = (words(record) >>> 32).toInt
  private def valueSize(record: Int): Int = words(record).toInt
  private def keyAt(record: Int): Long = address(record + 1)
  private def address(word: Int): Long = Platform.LONG_ARRAY_OFFSET + 8L * word

  private def hasKey(record: Int, key: UnsafeRow): Boolean = {
    val size = key.getSizeInBytes
    keySize(record) == size &&
      ByteArrayMethods.arrayEquals(key.getBaseObject, key.getBaseOffset, words, keyAt(record), size)
  }

  private def rehash(): Unit = {
    val old = slots
    slots = new Array[Long](old.length * 2)
    old.foreach { slot =>
      if (slot != 0) {
        var at = (slot >>> 32).toInt & (slots.length - 1)
        while (slots(at) != 0) at = (at + 1) & (slots.length - 1)
        slots(at) = slot
      }
    }
  }
}

object RowMap {
  // Most batches are small, and arrays have to be zeroed.
  private val FirstSlots = 1 << 10
  private val FirstWords = 1 << 12
}
