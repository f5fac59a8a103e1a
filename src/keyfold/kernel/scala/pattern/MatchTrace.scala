package org.apache.spark.sql.keyfold.pattern

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.rows.{EventTime, SideOutputBuilder}
import org.apache.spark.util.CollectionAccumulator

/** Writes down what each row of a key does to its partial matches, a line of JSON for each; rows go by their marks. */
class MatchTrace(lines: CollectionAccumulator[String], automaton: Automaton, key: String, rejects: SideOutputBuilder) extends MatchListener {
  private var line: ObjectNode = _
  /** What the row does is told while it happens, so what it took is looked up at the end. */
  private var said = Vector.empty[TakenRows => Unit]
  /** How much of that was said before the row had its turn. */
  private var before = 0

  private def blank(): ObjectNode = { val n = MatchTrace.mapper.createObjectNode(); n.set("key", MatchTrace.mapper.readTree(key)); n }
  private def list(name: String): ArrayNode = line.withArray(s"/$name")
  private def path(t: TakenRows, node: Int, to: ArrayNode): Unit =
    t.path(node).foreach(n => to.addObject().put("row", f"${t.marks(t.row(n))}%016x").put("step", automaton.name(t.position(n))))

  def begin(row: InternalRow, mask: Long, time: Long, mark: Long): Unit = {
    line = blank()
    before = said.length
    line.set("row", MatchTrace.mapper.readTree(rejects.json(row)))
    line.put("time", EventTime.text(time)).put("mark", f"$mark%016x")
    automaton.names.indices.filter(c => (mask & (1L << c)) != 0).foreach(held)
  }

  override def held(c: Int): Unit = { val all = list("true"); if (!(0 until all.size).exists(all.get(_).asText == automaton.names(c))) all.add(automaton.names(c)) }
  private def say(act: TakenRows => Unit): Unit = { if (line == null) line = blank(); said :+= act }
  override def took(node: Int): Unit = say(t => path(t, node, list("took").addArray()))
  override def waits(f: Match, earlier: Int): Unit = say { t =>
    val e = list("held").addObject()
    path(t, f.node, e.putArray("match"))
    path(t, earlier, e.putArray("behind"))
  }
  override def ended(node: Int, why: String): Unit = say { t => path(t, node, list("ended").addObject().put("why", why).putArray("match")) }
  override def found(f: Match): Unit = say { t => val e = list("matches").addObject().put("match_id", t.id(f.node)).put("timed_out", f.timedOut); path(t, f.node, e.putArray("match")) }

  /** A row that a condition threw on has done nothing. */
  def refused(why: String): Unit = { said = said.take(before); line.put("rejected", why) }

  /** The row is through; nothing to write down if only time has passed, and nothing came of it. */
  def end(m: Matcher): Unit = if (line != null) {
    said.foreach(_(m.taken))
    val waiting = list("waiting")
    m.groups.foreach(g => (0 until g.length).foreach { k =>
      val w = waiting.addObject()
      path(m.taken, g.nodes(k), w.putArray("match"))
      automaton.awaited(g.at, g.alive).foreach(w.withArray("/for").add(_))
    })
    lines.add(line.toString)
    line = null
    said = Vector.empty
  }
}

object MatchTrace { private val mapper = new ObjectMapper() }
