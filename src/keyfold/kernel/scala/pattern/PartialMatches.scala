package org.apache.spark.sql.keyfold.pattern

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.XXH64

/** Numbers, as many as come. */
class IntBuffer(private var all: Array[Int] = new Array[Int](8), private var n: Int = 0) {
  def length: Int = n
  def apply(i: Int): Int = all(i)
  def +=(x: Int): Unit = { if (n == all.length) all = Arrays.copyOf(all, math.max(8, n * 2)); all(n) = x; n += 1 }
  def cut(to: Int): Unit = n = to
}

/**
 * The rows that partial matches of a key hold, each once, and how they hang together: a taken row is a node that names the row, the position that took it, and the
 * node before it, so that partial matches with the same beginning share it.
 */
class TakenRows {
  val rows = new ArrayBuffer[InternalRow]
  val times = new ArrayBuffer[Long]
  /** What tells a row from all others of its key, also after others were forgotten. */
  val marks = new ArrayBuffer[Long]
  val (row, position, before) = (new IntBuffer, new IntBuffer, new IntBuffer)

  def add(r: InternalRow, time: Long, mark: Long): Int = { rows += r; times += time; marks += mark; rows.length - 1 }
  def node(r: Int, at: Int, after: Int): Int = { row += r; position += at; before += after; row.length - 1 }
  def cut(rowsTo: Int, nodesTo: Int): Unit = {
    Seq(row, position, before).foreach(_.cut(nodesTo))
    rows.dropRightInPlace(rows.length - rowsTo); times.dropRightInPlace(times.length - rowsTo); marks.dropRightInPlace(marks.length - rowsTo)
  }

  /** The nodes of a match, from its first row on. */
  def path(last: Int): Array[Int] = {
    var (n, at) = (0, last)
    while (at >= 0) { n += 1; at = before(at) }
    val all = new Array[Int](n)
    at = last
    while (at >= 0) { n -= 1; all(n) = at; at = before(at) }
    all
  }

  /** By the rows that were taken first, then by what took them. */
  def compare(a: Int, b: Int): Int = {
    val (x, y) = (path(a), path(b))
    val rows = Arrays.compare(x.map(row(_)), y.map(row(_)))
    if (rows != 0) rows else Arrays.compare(x.map(position(_)), y.map(position(_)))
  }

  def id(last: Int): String = {
    val hash = path(last).foldLeft(42L)((h, n) => XXH64.hashLong(marks(row(n)), XXH64.hashLong(position(n), h)))
    f"$hash%016x"
  }
}

/** Partial matches that are at the same position and wait for the same: a row does the same to all of them, as far as it alone decides. */
class PartialMatches(val at: Int, val alive: Long) {
  val (nodes, starts) = (new IntBuffer, new IntBuffer)
  def length: Int = nodes.length
  def add(node: Int, start: Int): Unit = { nodes += node; starts += start }
  /** Those that began with such a row. */
  def begun(keep: Int => Boolean): PartialMatches = {
    val g = new PartialMatches(at, alive)
    var i = 0
    while (i < length) { if (keep(starts(i))) g.add(nodes(i), starts(i)); i += 1 }
    g
  }
}
