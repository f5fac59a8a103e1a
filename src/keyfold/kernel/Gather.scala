package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution}
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnaryExecNode, UnsafeExternalRowSorter}
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
    child.execute().mapPartitionsInternal(rows => new Gathering(f, n, g, out, limit, () => sort.createSorter())(rows))
  }
  override protected def withNewChildInternal(c: SparkPlan): GatherExec = copy(child = c)
}

class Gathering(fold: Option[Fold], nKeys: Int, nGroup: Int, schema: Seq[Attribute], limit: Long, sorter: () => UnsafeExternalRowSorter) {
  private val keyOf = UnsafeProjection.create(schema.take(nKeys), schema)
  private val groupOf = if (nGroup == nKeys) keyOf else UnsafeProjection.create(schema.take(nGroup), schema)
  private val bad = schema.length - 1
  // Whether one row stands for all of a key.
  private val single = fold.isDefined && nGroup == nKeys
  private val merging = fold.map { fold =>
    val others = schema.map(_.newInstance())
    val left = fold.state.zip(schema.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val right = fold.right.zip(others.slice(nGroup, nGroup + fold.state.length)).map { case (a, b) => a.exprId -> b }.toMap
    val merge = fold.merge.get.map(_.transform { case a: AttributeReference => left.getOrElse(a.exprId, right.getOrElse(a.exprId, a)) })
    MutableProjection.create(Seq.fill(nGroup)(NoOp) ++ merge :+ NoOp, schema ++ others)
  }.orNull
  private val joined = new JoinedRow
  private val first = new java.util.HashMap[UnsafeRow, UnsafeRow]
  // By key, where a group is less than a key: the first row of each group. And rows that stay by themselves: late or replayed ones, and those that could not be
  // merged, of which the kernel finds out which to reject.
  private val more = new java.util.HashMap[UnsafeRow, ArrayBuffer[UnsafeRow]]
  private var bytes = 0L

  def apply(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    // Rejected rows travel under a null key; they are a group of their own and need no gathering.
    val aside = new ArrayBuffer[InternalRow]
    while (rows.hasNext && bytes <= limit) {
      val row = rows.next().asInstanceOf[UnsafeRow]
      val key = keyOf(row)
      if (key.anyNull) { val c = row.copy(); bytes += c.getSizeInBytes; aside += c } else if (fold.isDefined && row.isNullAt(bad)) add(groupOf(row), row) else apart(row, row.copy())
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
    } else try merging.target(known)(joined(known, row)) catch {
      case e if Rejects.isRowError(e) => apart(row, row.copy())
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

  /** More than memory should hold: Spark's sorter, which goes to disk, does the rest. */
  private def spilled(rows: Iterator[InternalRow]): Iterator[InternalRow] = sorter().sort(rows.asInstanceOf[Iterator[UnsafeRow]])

  /** By the bytes of the key, as the state store keeps them: neighbours are read and written together. */
  private def inOrder: Iterator[InternalRow] = {
    val keys = (if (!single) more else first).keySet().toArray(new Array[UnsafeRow](0))
    val skip = commonPrefix(keys)
    val array = new LongArray(MemoryBlock.fromLongArray(new Array[Long](math.max(4, keys.length * 4))))
    var i = 0
    while (i < keys.length) { array.set(i * 2, i); array.set(i * 2 + 1, eightBytes(keys(i), skip)); i += 1 }
    val start = RadixSort.sortKeyPrefixArray(array, 0, keys.length, 0, 7, false, false)
    Iterator.range(0, keys.length).flatMap { n =>
      val key = keys(array.get(start + n * 2).toInt)
      if (!single) more.get(key).iterator
      else {
        val one = Iterator.single(first.get(key))
        if (more.isEmpty || !more.containsKey(key)) one else one ++ more.get(key).iterator
      }
    }
  }

  private def commonPrefix(keys: Array[UnsafeRow]): Int = {
    var length = if (keys.isEmpty) 0 else keys(0).getSizeInBytes
    keys.foreach { k =>
      var i = 0
      val most = math.min(length, k.getSizeInBytes)
      while (i < most && byte(k, i) == byte(keys(0), i)) i += 1
      length = i
    }
    length
  }

  private def byte(k: UnsafeRow, i: Int): Byte = Platform.getByte(k.getBaseObject, k.getBaseOffset + i)

  private def eightBytes(k: UnsafeRow, from: Int): Long =
    if (from + 8 <= k.getSizeInBytes) java.lang.Long.reverseBytes(Platform.getLong(k.getBaseObject, k.getBaseOffset + from))
    else (0 until 8).foldLeft(0L)((v, i) => (v << 8) | (if (from + i < k.getSizeInBytes) byte(k, from + i) & 0xff else 0))
}
