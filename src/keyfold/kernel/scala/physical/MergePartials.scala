package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, StatefulOpClusteredDistribution}
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.expressions.AggregateFold

/**
 * After the shuffle: the partial states of each group (a key, or a key and a cell of time) merged into one row, rows of a key side by side, in the order the state
 * store keeps keys. Without a fold, rows as they are, put together by their key.
 */
case class MergePartials(fold: Option[AggregateFold], keys: Seq[Attribute], group: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def stringArgs: Iterator[Any] = Iterator(keys)
  override protected def withNewChildInternal(c: LogicalPlan): MergePartials = copy(child = c)
}

object MergePartials {
  /** Bytes that an entry of the map takes beside its rows: objects, headers, references. */
  val Entry = 160
}

/**
 * Stands in for the sort that Spark's stateful operator asks for. Sorting every row by its key was half of all Java time at a million keys; merging first
 * and sorting the merged rows by eight telling bytes of the key is a tenth of that.
 */
case class MergePartialsExec(fold: Option[AggregateFold], keys: Seq[Attribute], group: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
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
      f.fold(new KeyGrouping(n, out, limit)(rows, spilled))(new PartialMerger(_, n, g, out, limit)(rows, spilled))
    }
  }
  override protected def withNewChildInternal(c: SparkPlan): MergePartialsExec = copy(child = c)
}
