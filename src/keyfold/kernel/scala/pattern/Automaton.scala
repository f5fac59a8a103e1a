package org.apache.spark.sql.keyfold.pattern

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** How close to the last matched row the next one must be; names as in plan/pattern/syntax.py. */
object Contiguity {
  /** The next row that satisfies the condition. */
  val Relaxed = 0
  /** The very next row of the key. */
  val Strict = 1
  /** Every row that satisfies the condition: Flink's non-deterministic relaxed contiguity. */
  val Any = 2
  private[pattern] val byName = Map("relaxed" -> Relaxed, "strict" -> Strict, "any" -> Any)
}

/**
 * A transition from one position of a pattern to another, or to acceptance. A row disables it if it satisfies
 * a condition of `disabledBy`; if it is the very next row and satisfies one of `disabledByNext`; if it is
 * taken by a transition of `yieldsTo`; or if the transition is strict and does not take the row. Conditions
 * and transitions are numbered as in plan/pattern/automaton.py.
 */
case class Transition(
    target: Int,
    contiguity: Int,
    disabledBy: Array[Int],
    disabledByNext: Array[Int],
    yieldsTo: Array[Int]) {
  def accepting: Boolean = target < 0
  /**
   * Whether the pattern is complete as soon as its last row is matched. Otherwise it ends with a negation,
   * and completes when `within` expires.
   */
  def acceptsAtOnce: Boolean = accepting && disabledBy.isEmpty
}

/**
 * The automaton that plan/pattern/automaton.py compiles a pattern to. A position is one occurrence of a step
 * in the pattern. A partial match is at a position, with a bit for each transition that is still enabled.
 */
case class Automaton(
    steps: Array[String],
    conditionNames: Array[String],
    conditionPhrases: Array[String],
    positions: Array[Int],
    initial: Array[Transition],
    transitions: Array[Array[Transition]]) {
  /** By position: the bits of a partial match that has just reached it. */
  val enabledOnEntry: Array[Long] = transitions.map { out =>
    val bits = Automaton.bits(out.indices.filterNot(out(_).acceptsAtOnce))
    val readsNextRow = out.exists { t =>
      !t.acceptsAtOnce && (t.contiguity == Contiguity.Strict || t.disabledByNext.nonEmpty)
    }
    if (readsNextRow) bits | Automaton.Adjacent else bits
  }
  /** The bits of all initial transitions. */
  val enabledInitially: Long = Automaton.bits(initial.indices)
  /** By position: whether a partial match that reaches it is a complete match. */
  val accepts: Array[Boolean] = transitions.map(_.exists(_.acceptsAtOnce))
  /** By position: the bits of the transitions that complete when `within` expires. */
  val trailingNegations: Array[Long] = transitions.map { out =>
    Automaton.bits(out.indices.filter(i => out(i).accepting && !out(i).acceptsAtOnce))
  }
  /** Whether a row that satisfies no condition makes a difference, by coming between two others. */
  val everyRowCounts: Boolean = enabledOnEntry.exists(bits => (bits & Automaton.Adjacent) != 0)
  /** By position: the conditions that its transitions evaluate. */
  val conditionsRead: Array[Array[Int]] = transitions.map(_.flatMap { t =>
    t.disabledBy ++ t.disabledByNext ++ (if (t.accepting) Array.empty[Int] else Array(positions(t.target)))
  }.distinct)

  def stepName(position: Int): String = steps(positions(position))

  /** The steps that a partial match waits for, by name. */
  def awaited(position: Int, enabled: Long): Seq[String] = {
    val out = transitions(position)
    out.indices.filter(i => (enabled & (1L << i)) != 0).map(i => targetName(out(i))).distinct
  }
  def targetName(t: Transition): String = if (t.accepting) "the end" else stepName(t.target)
}

object Automaton {
  /** Set in a partial match until another row arrives: the next row is adjacent to its last matched row. */
  val Adjacent: Long = 1L << 63

  def bits(numbers: Seq[Int]): Long = numbers.foldLeft(0L)((all, i) => all | (1L << i))

  def parse(json: String): Automaton = {
    val root = new ObjectMapper().readTree(json)
    val conditions = elements(root.get("conditions"))
    Automaton(
      steps = elements(root.get("steps")).map(_.asText),
      conditionNames = conditions.map(_.get(0).asText),
      conditionPhrases = conditions.map(_.get(1).asText),
      positions = integers(root.get("positions")),
      initial = parseTransitions(root.get("initial")),
      transitions = elements(root.get("transitions")).map(parseTransitions))
  }

  private def parseTransitions(list: JsonNode): Array[Transition] = elements(list).map { t =>
    val contiguity = Contiguity.byName(t.get(1).asText)
    Transition(t.get(0).asInt, contiguity, integers(t.get(2)), integers(t.get(3)), integers(t.get(4)))
  }
  private def elements(list: JsonNode): Array[JsonNode] = list.elements().asScala.toArray
  private def integers(list: JsonNode): Array[Int] = elements(list).map(_.asInt)
}
