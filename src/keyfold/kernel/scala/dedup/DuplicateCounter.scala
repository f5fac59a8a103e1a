package org.apache.spark.sql.keyfold.dedup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** How many rows a step has removed, one line for each partition instead of one for each key. */
case class DuplicateCounter(step: String, bad: Int) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = new Iterator[InternalRow] {
    private var (n, ready) = (0L, null: InternalRow)
    override def hasNext: Boolean = { if (ready == null) ready = advance(); ready != null }
    override def next(): InternalRow = { if (!hasNext) throw new NoSuchElementException; val r = ready; ready = null; r }
    private def advance(): InternalRow = {
      while (rows.hasNext) {
        val row = rows.next()
        if (row.isNullAt(bad) || !row.getUTF8String(bad).startsWith(DuplicateCounter.mark)) return row
        n += row.getUTF8String(bad).toString.drop(1).toLong
      }
      if (n == 0) null else {
        val text = UTF8String.fromString(DuplicateCounter.json(step, n).toString)
        n = 0
        val r = new GenericInternalRow(bad + 1)
        r.update(bad, text)
        r
      }
    }
  }
}

object DuplicateCounter {
  val Mark = "#"
  val mark: UTF8String = UTF8String.fromString(Mark)
  private val mapper = new com.fasterxml.jackson.databind.ObjectMapper()
  def json(step: String, n: Long): com.fasterxml.jackson.databind.node.ObjectNode = mapper.createObjectNode().put("removed", n).put("step", step)
}
