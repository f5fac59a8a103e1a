package org.apache.spark.sql.keyfold.pattern

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** How near the next row must be. */
object Link { val Next = 0; val Strict = 1; val Any = 2; private[keyfold] val names = Map("next" -> Next, "strict" -> Strict, "any" -> Any) }

/** A way from one position of a pattern to another, or out of it; numbers of conditions and of ways as in plan/automaton.py. */
case class Transition(target: Int, link: Int, ends: Array[Int], atOnce: Array[Int], after: Array[Int]) {
  def out: Boolean = target < 0
  /** Whether the pattern is matched as soon as its last row is taken; otherwise it must be waited for what must not come. */
  def done: Boolean = out && ends.isEmpty
}

/** A pattern as the table that plan/automaton.py makes of it. A position is a place of a step in the pattern; what a partial match waits for is a bit for each way. */
case class Automaton(steps: Array[String], names: Array[String], words: Array[String], positions: Array[Int], begin: Array[Transition], ways: Array[Array[Transition]]) {
  /** What a partial match waits for when it has just come to a position. */
  val full: Array[Long] = ways.map { w =>
    val bits = Automaton.bits(w.indices.filterNot(w(_).done))
    if (w.exists(x => !x.done && (x.link == Link.Strict || x.atOnce.nonEmpty))) bits | Automaton.Fresh else bits
  }
  val accepts: Array[Boolean] = ways.map(_.exists(_.done))
  /** The ways out that wait for what must not come. */
  val waits: Array[Long] = ways.map(w => Automaton.bits(w.indices.filter(i => w(i).out && !w(i).done)))
  /** Whether rows that no condition is true for make a difference. */
  val strict: Boolean = full.exists(f => (f & Automaton.Fresh) != 0)
  /** The conditions that ways of a position look at. */
  val looks: Array[Array[Int]] = ways.map(_.flatMap(w => w.ends ++ w.atOnce ++ (if (w.out) Array.empty[Int] else Array(positions(w.target)))).distinct)
  /** All ways to begin. */
  val fullBegin: Long = Automaton.bits(begin.indices)
  def name(position: Int): String = steps(positions(position))
  /** What a partial match waits for, in words. */
  def awaited(position: Int, alive: Long): Seq[String] = ways(position).indices.filter(i => (alive & (1L << i)) != 0).map(i => if (ways(position)(i).out) "the end" else name(ways(position)(i).target)).distinct
}

object Automaton {
  /** No row has come since the last one was taken. */
  val Fresh: Long = 1L << 63

  def bits(numbers: Seq[Int]): Long = numbers.foldLeft(0L)((all, i) => all | (1L << i))

  def parse(json: String): Automaton = {
    val root = new ObjectMapper().readTree(json)
    def all(n: JsonNode): Seq[JsonNode] = n.elements().asScala.toSeq
    def ints(n: JsonNode) = all(n).map(_.asInt).toArray
    def ways(n: JsonNode) = all(n).map(w => Transition(w.get(0).asInt, Link.names(w.get(1).asText), ints(w.get(2)), ints(w.get(3)), ints(w.get(4)))).toArray
    def texts(n: JsonNode) = all(n).map(_.asText).toArray
    val conditions = all(root.get("conditions"))
    Automaton(texts(root.get("steps")), conditions.map(_.get(0).asText).toArray, conditions.map(_.get(1).asText).toArray, ints(root.get("positions")), ways(root.get("begin")), all(root.get("ways")).map(ways).toArray)
  }
}
