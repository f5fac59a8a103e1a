package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution}
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/**
 * After the shuffle: the partial states of each group (a key, or a key and a cell of time) merged into one row, rows of a key side by side, in the order the state
 * store keeps keys. Without a fold, rows as they are, put together by their key.
 */
case class Gather(fold: Option[Fold], keys: Seq[Attribute], group: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def stringArgs: Iterator[Any] = Iterator(keys)
  override protected def withNewChildInternal(c: LogicalPlan): Gather = copy(child = c)
}

object Gather {
  /** Bytes that an entry of the map takes beside its rows: objects, headers, references. */
  val Entry = 160
}

/**
 * Stands in for the sort that Spark's stateful operator asks for. Sorting every row by its key was half of all Java time at a million keys; merging first
 * and sorting the merged rows by eight telling bytes of the key is a tenth of that.
 */
case class GatherExec(fold: Option[Fold], keys: Seq[Attribute], group: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  private val order = keys.map(SortOrder(_, Ascending))
  // What is promised here is only that rows of a key are adjacent, which is all that the operator above needs of an order.
  override def outputOrdering: Seq[SortOrder] = order
  override def requiredChildDistribution: Seq[Distribution] = StatefulOpClusteredDistribution(keys, conf.numShufflePartitions) :: Nil
  override protected def stringArgs: Iterator[Any] = Iterator(keys)

  override protected def doExecute(): RDD[InternalRow] = {
    val sort = SortExec(order, global = false, child)
    val (f, n, g, out) = (fold, keys.length, group.length, output)
    val limit = conf.getConfString("spark.keyfold.gatherBytes", "134217728").toLong
    child.execute().mapPartitionsInternal { rows =>
      // More than memory should hold: Spark's sorter, which goes to disk, does the rest.
      def spilled(all: Iterator[InternalRow]): Iterator[InternalRow] = sort.createSorter().sort(all.asInstanceOf[Iterator[UnsafeRow]])
      f.fold(new Adjacent(n, out, limit)(rows, spilled))(new Gathering(_, n, g, out, limit)(rows, spilled))
    }
  }
  override protected def withNewChildInternal(c: SparkPlan): GatherExec = copy(child = c)
}

/** Merged rows, each group's in a map until all have come. */
class Gathering(fold: Fold, nKeys: Int, nGroup: Int, schema: Seq[Attribute], limit: Long) {
  private val keyOf = UnsafeProjection.create(schema.take(nKeys), schema)
  private val groupOf = if (nGroup == nKeys) keyOf else UnsafeProjection.create(schema.take(nGroup), schema)
  private val bad = schema.length - 1
  // Whether one row stands for all of a key.
  private val single = nGroup == nKeys
  private val merging = {
    val others = schema.map(_.newInstance())
    val left = fold.state.zip(schema.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val right = fold.right.zip(others.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val merge = fold.merge.get.map(_.transform { case a: AttributeReference => left.getOrElse(a.exprId, right.getOrElse(a.exprId, a)) })
    new Computing(Seq.fill(nGroup)(NoOp) ++ merge :+ NoOp, schema ++ others)
  }
  private val joined = new JoinedRow
  private val first = new java.util.HashMap[UnsafeRow, UnsafeRow]
  // By key, where a group is less than a key: the first row of each group. And rows that stay by themselves: late or replayed ones, and those that could not be
  // merged, of which the kernel finds out which to reject.
  private val more = new java.util.HashMap[UnsafeRow, ArrayBuffer[UnsafeRow]]
  private var bytes = 0L

  def apply(rows: Iterator[InternalRow], spilled: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    // Rejected rows travel under a null key; they are a group of their own and need no gathering.
    val aside = new ArrayBuffer[InternalRow]
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow]
      val key = keyOf(row)
      if (key.anyNull) { val c = row.copy(); bytes += c.getSizeInBytes; aside += c } else if (row.isNullAt(bad)) add(groupOf(row), row) else apart(row, row.copy())
    }
    if (rows.hasNext) spilled(aside.iterator ++ held ++ rows) else aside.iterator ++ inOrder
  }

  private def add(group: UnsafeRow, row: UnsafeRow): Unit = {
    val known = first.get(group)
    if (known == null) {
      val c = row.copy()
      bytes += c.getSizeInBytes + group.getSizeInBytes + Gather.Entry
      first.put(group.copy(), c)
      if (!single) apart(row, c)
    } else try merging.into(known, joined(known, row)) catch {
      case _: RowError => apart(row, row.copy())
    }
  }

  private def apart(row: UnsafeRow, kept: UnsafeRow): Unit = {
    val key = keyOf(row)
    var rows = more.get(key)
    if (rows == null) { rows = new ArrayBuffer[UnsafeRow](4); more.put(key.copy(), rows) }
    bytes += row.getSizeInBytes + Gather.Entry
    rows += kept
  }

  private def held: Iterator[InternalRow] = {
    import scala.jdk.CollectionConverters._
    (if (!single) Iterator.empty else first.values().iterator().asScala) ++ more.values().iterator().asScala.flatMap(_.iterator)
  }

  /** By the bytes of the key, as the state store keeps them: neighbours are read and written together. */
  private def inOrder: Iterator[InternalRow] = {
    val keys = (if (!single) more else first).keySet().toArray(new Array[UnsafeRow](0))
    val skip = keys.foldLeft(if (keys.isEmpty) 0 else keys(0).getSizeInBytes)((n, k) => KeyBytes.common(keys(0), k, n))
    val order = KeyBytes.sorted(keys.length, i => KeyBytes.eight(keys(i), skip))
    Iterator.range(0, keys.length).flatMap { n =>
      val key = keys(order.at(n))
      if (!single) more.get(key).iterator
      else {
        val one = Iterator.single(first.get(key))
        if (more.isEmpty || !more.containsKey(key)) one else one ++ more.get(key).iterator
      }
    }
  }
}

/** Rows as they are, those of a key side by side. They are sorted by eight bytes of the key; rows that those don't tell apart, by all of it. */
class Adjacent(nKeys: Int, schema: Seq[Attribute], limit: Long) {
  private val (keyOf, otherOf) = (UnsafeProjection.create(schema.take(nKeys), schema), UnsafeProjection.create(schema.take(nKeys), schema))

  def apply(rows: Iterator[InternalRow], spilled: Iterator[InternalRow] => Iterator[InternalRow]): Iterator[InternalRow] = {
    val (aside, all) = (new ArrayBuffer[InternalRow], new ArrayBuffer[UnsafeRow])
    var first: UnsafeRow = null
    var (bytes, skip) = (0L, 0)
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow].copy()
      bytes += row.getSizeInBytes + Adjacent.Entry
      val key = keyOf(row)
      if (key.anyNull) aside += row else {
        if (first == null) { first = key.copy(); skip = first.getSizeInBytes } else skip = KeyBytes.common(first, key, skip)
        all += row
      }
    }
    if (rows.hasNext) spilled(aside.iterator ++ all ++ rows) else aside.iterator ++ inOrder(all.toArray, skip)
  }

  private def inOrder(all: Array[UnsafeRow], skip: Int): Iterator[InternalRow] = {
    val order = KeyBytes.sorted(all.length, i => KeyBytes.eight(keyOf(all(i)), skip))
    val sorted = Array.tabulate(all.length)(n => all(order.at(n)))
    var from = 0
    while (from < sorted.length) {
      var (to, mixed) = (from + 1, false)
      while (to < sorted.length && order.prefix(to) == order.prefix(from)) { mixed ||= keyOf(sorted(to)) != otherOf(sorted(from)); to += 1 }
      if (mixed) java.util.Arrays.sort(sorted, from, to, (a: UnsafeRow, b: UnsafeRow) => KeyBytes.compare(keyOf(a), otherOf(b)))
      from = to
    }
    sorted.iterator
  }
}

object Adjacent {
  /** Bytes that a row takes beside its own. */
  val Entry = 64
}

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
  def sorted(n: Int, prefix: Int => Long): Places = {
    val array = new LongArray(MemoryBlock.fromLongArray(new Array[Long](math.max(4, n * 4))))
    var i = 0
    while (i < n) { array.set(i * 2, i); array.set(i * 2 + 1, prefix(i)); i += 1 }
    new Places(array, RadixSort.sortKeyPrefixArray(array, 0, n, 0, 7, false, false))
  }
}

class Places(array: LongArray, start: Int) {
  def at(n: Int): Int = array.get(start + n * 2).toInt
  def prefix(n: Int): Long = array.get(start + n * 2 + 1)
}
