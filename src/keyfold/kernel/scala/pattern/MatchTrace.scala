package org.apache.spark.sql.keyfold.pattern

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputBuilder
import org.apache.spark.util.CollectionAccumulator

/**
 * Records what each row of a key does to its partial matches, as a line of JSON, for `keyfold pattern
 * explain`. Rows are referred to by their ids.
 */
class MatchTrace(
    lines: CollectionAccumulator[String],
    automaton: Automaton,
    key: String,
    sideOutput: SideOutputBuilder) extends MatchListener {
  private var line: ObjectNode = _
  /** Entries of the line, written when the row is done: only then are all nodes known. */
  private var entries = Vector.empty[MatchedRows => Unit]
  /** How many of them precede the row: its time has expired something. */
  private var entriesBeforeRow = 0

  /** A row is about to be matched. */
  def begin(row: InternalRow, mask: Long, time: Long, rowId: Long): Unit = {
    line = emptyLine()
    entriesBeforeRow = entries.length
    line.set("row", MatchTrace.mapper.readTree(sideOutput.json(row)))
    line.put("time", EventTime.text(time)).put("mark", hex(rowId))
    automaton.conditionNames.indices.filter(c => (mask & (1L << c)) != 0).foreach(onCondition)
  }

  override def onCondition(condition: Int): Unit = {
    val (satisfied, name) = (list("true"), automaton.conditionNames(condition))
    if (!(0 until satisfied.size).exists(satisfied.get(_).asText == name)) satisfied.add(name)
  }
  override def onRowMatched(node: Int): Unit = record(m => writePath(m, node, list("took").addArray()))
  override def onDeferred(found: Match, earlier: Int): Unit = record { matched =>
    val entry = list("held").addObject()
    writePath(matched, found.lastNode, entry.putArray("match"))
    writePath(matched, earlier, entry.putArray("behind"))
  }
  override def onDiscarded(lastNode: Int, reason: String): Unit = record { matched =>
    writePath(matched, lastNode, list("ended").addObject().put("why", reason).putArray("match"))
  }
  override def onMatch(found: Match): Unit = record { matched =>
    val entry = list("matches").addObject()
    entry.put("match_id", matched.id(found.lastNode)).put("timed_out", found.timedOut)
    writePath(matched, found.lastNode, entry.putArray("match"))
  }

  /** A condition threw on the row, which therefore has no effect. */
  def onRejected(reason: String): Unit = {
    entries = entries.take(entriesBeforeRow)
    line.put("rejected", reason)
  }

  /** The row is done. Without a row, there is a line only if the passing of time has had an effect. */
  def end(matcher: Matcher): Unit = if (line != null) {
    entries.foreach(_(matcher.matched))
    val waiting = list("waiting")
    matcher.partials.foreach { (group, k) =>
      val entry = waiting.addObject()
      writePath(matcher.matched, group.lastNodes(k), entry.putArray("match"))
      automaton.awaited(group.position, group.enabled).foreach(entry.withArray("/for").add(_))
    }
    lines.add(line.toString)
    line = null
    entries = Vector.empty
  }

  private def record(entry: MatchedRows => Unit): Unit = {
    if (line == null) line = emptyLine()
    entries :+= entry
  }
  private def emptyLine(): ObjectNode = {
    val node = MatchTrace.mapper.createObjectNode()
    node.set("key", MatchTrace.mapper.readTree(key))
    node
  }
  private def list(name: String): ArrayNode = line.withArray(s"/$name")
  private def hex(rowId: Long): String = f"$rowId%016x"
  private def writePath(matched: MatchedRows, lastNode: Int, to: ArrayNode): Unit =
    matched.path(lastNode).foreach { node =>
      val step = automaton.stepName(matched.position(node))
      to.addObject().put("row", hex(matched.rowIds(matched.row(node)))).put("step", step)
    }
}

object MatchTrace { private val mapper = new ObjectMapper() }
