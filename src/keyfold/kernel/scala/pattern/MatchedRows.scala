package org.apache.spark.sql.keyfold.pattern

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.XXH64

/** A growing array of ints, without boxing. */
class IntBuffer(private var elements: Array[Int] = new Array[Int](8), private var size: Int = 0) {
  def length: Int = size
  def apply(i: Int): Int = elements(i)
  def +=(x: Int): Unit = {
    if (size == elements.length) elements = Arrays.copyOf(elements, math.max(8, size * 2))
    elements(size) = x
    size += 1
  }
  def truncate(length: Int): Unit = size = length
}

/**
 * The rows that the partial matches of a key have matched, each stored once. A matched row is a node: the
 * row, the position that matched it, and the previous node, so that partial matches share a common beginning.
 * Rows and nodes are numbered from 0; the first node of a match has -1 as its previous one.
 */
class MatchedRows {
  val rows = new ArrayBuffer[InternalRow]
  val times = new ArrayBuffer[Long]
  /** Identifies a row among all rows of its key, including those that are no longer stored. */
  val rowIds = new ArrayBuffer[Long]
  private val nodeRows = new IntBuffer
  private val nodePositions = new IntBuffer
  private val previousNodes = new IntBuffer

  def rowCount: Int = rows.length
  def nodeCount: Int = nodeRows.length
  /** The row of a node. */
  def row(node: Int): Int = nodeRows(node)
  def position(node: Int): Int = nodePositions(node)
  def previous(node: Int): Int = previousNodes(node)

  /** Appends a row and returns its number. */
  def addRow(row: InternalRow, time: Long, rowId: Long): Int = {
    val number = rowCount
    rows += row
    times += time
    rowIds += rowId
    number
  }

  /** Appends a node and returns its number. */
  def addNode(row: Int, position: Int, previous: Int): Int = {
    val number = nodeCount
    nodeRows += row
    nodePositions += position
    previousNodes += previous
    number
  }

  /** Removes the newest rows and nodes. */
  def truncate(rowCount: Int, nodeCount: Int): Unit = {
    nodeRows.truncate(nodeCount)
    nodePositions.truncate(nodeCount)
    previousNodes.truncate(nodeCount)
    val removed = rows.length - rowCount
    rows.dropRightInPlace(removed)
    times.dropRightInPlace(removed)
    rowIds.dropRightInPlace(removed)
  }

  /** The nodes of a match, first row first. */
  def path(last: Int): Array[Int] = {
    var length = 0
    var node = last
    while (node >= 0) { length += 1; node = previous(node) }
    val nodes = new Array[Int](length)
    node = last
    while (node >= 0) { length -= 1; nodes(length) = node; node = previous(node) }
    nodes
  }

  /** The first node of a match. */
  def first(last: Int): Int = {
    var node = last
    while (previous(node) >= 0) node = previous(node)
    node
  }

  /** Orders matches by their rows, then by the positions that matched them. */
  def compare(a: Int, b: Int): Int = {
    val (x, y) = (path(a), path(b))
    val byRows = Arrays.compare(x.map(row), y.map(row))
    if (byRows != 0) byRows else Arrays.compare(x.map(position), y.map(position))
  }

  /** A match's id: a hash of its row ids and positions, the same after a restart. */
  def id(last: Int): String = {
    val hash = path(last).foldLeft(MatchedRows.Seed) { (h, node) =>
      XXH64.hashLong(rowIds(row(node)), XXH64.hashLong(position(node), h))
    }
    f"$hash%016x"
  }
}

object MatchedRows {
  private val Seed = 42L

  /** The id of the n-th row of a key with one time, or in one batch. */
  def rowId(timeOrBatch: Long, ordinal: Long): Long =
    XXH64.hashLong(ordinal, XXH64.hashLong(timeOrBatch, Seed))
}
