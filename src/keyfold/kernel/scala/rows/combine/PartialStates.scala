package org.apache.spark.sql.keyfold.rows.combine

import java.util.{HashMap, Iterator => JavaIterator}
import java.util.Map.Entry

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}
import org.apache.spark.sql.keyfold.physical.RowMap

/** The states that partial aggregation holds, by key. */
private[rows] sealed trait PartialStates {
  def size: Int
  /** About how many bytes they take, without what grows with the rows. */
  def bytes: Long
  /** The state of a key, to be changed in place, until the next call; null if there is none. */
  def get(key: UnsafeRow): InternalRow
  /** Adds the state of a key that the last call, a `get`, has not found. */
  def add(key: UnsafeRow, state: InternalRow): Unit
  /** Keys with their states, joined, each until the next; null at the end. */
  def drained(): () => InternalRow
  def clear(): Unit
}

/** States of fixed width. */
private[rows] final class FlatStates(keyWidth: Int, width: Int) extends PartialStates {
  private val map = new RowMap(width)
  private val (key, state, joined) = (new UnsafeRow(keyWidth), new UnsafeRow(width), new JoinedRow)
  override def size: Int = map.size
  override def bytes: Long = map.bytes
  override def get(key: UnsafeRow): InternalRow = map.get(key)
  override def add(key: UnsafeRow, state: InternalRow): Unit = map.add(key, state.asInstanceOf[UnsafeRow])
  override def clear(): Unit = map.clear()
  /** The record of the state that was last found or added. */
  def last: Int = map.last
  /** The state in a record, to be changed in place, until the next call. */
  def of(record: Int): UnsafeRow = map.value(record, state)
  override def drained(): () => InternalRow = {
    val records = map.records.iterator
    () => if (!records.hasNext) null else {
      val record = records.next()
      joined(map.key(record, key), map.value(record, state))
    }
  }
}

/** States that hold objects, such as sets and sketches. */
private[rows] final class ObjectStates(fields: Int, stored: InternalRow => InternalRow)
    extends PartialStates {
  private val map = new HashMap[UnsafeRow, InternalRow]
  private val joined = new JoinedRow
  private var held = 0L
  override def size: Int = map.size
  override def bytes: Long = held
  override def get(key: UnsafeRow): InternalRow = map.get(key)
  override def add(key: UnsafeRow, state: InternalRow): Unit = {
    map.put(key.copy(), state)
    held += key.getSizeInBytes + ObjectStates.EntryBytes + ObjectStates.FieldBytes * fields
  }
  override def clear(): Unit = {
    map.clear()
    held = 0
  }
  override def drained(): () => InternalRow = {
    val entries: JavaIterator[Entry[UnsafeRow, InternalRow]] = map.entrySet().iterator()
    () => if (!entries.hasNext) null else {
      val entry = entries.next()
      joined(entry.getKey, stored(entry.getValue))
    }
  }
}

private[rows] object ObjectStates {
  /** What an entry of a map and its two rows take beside their fields, and a field that is an object. */
  val EntryBytes: Int = 120
  val FieldBytes: Int = 24
}
