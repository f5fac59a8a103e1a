package org.apache.spark.sql.keyfold.pattern

/** The automaton as Python writes it, and what is derived from its transitions. */
class AutomatonSuite extends munit.FunSuite {
  // Compared with what plan/pattern/automaton.py writes for its pattern by tests/unit/plan/test_automaton.py.
  private val json = """
    {"steps": ["a", "b", "c"],
     "conditions": [["a", "a"], ["b", "b"], ["c", "c"], ["n", "n came"], ["until x=4", "until x=4 is true"]],
     "positions": [0, 1, 2],
     "initial": [[0, "relaxed", [], [], []]],
     "transitions": [[[1, "relaxed", [3, 4], [], []]],
                     [[1, "relaxed", [4], [], []], [2, "strict", [], [], [0]]],
                     [[-1, "relaxed", [], [], []]]]}
  """
  private val parsed = Automaton.parse(json)
  private def edited(from: String, to: String): Automaton = {
    val Seq(old, replacement) = Seq(from, to).map(_.replace("'", "\""))
    assert(json.contains(old))
    Automaton.parse(json.replace(old, replacement))
  }

  test("parsing keeps steps, conditions and positions in their order") {
    assertEquals(parsed.steps.toSeq, Seq("a", "b", "c"))
    assertEquals(parsed.conditionNames.toSeq, Seq("a", "b", "c", "n", "until x=4"))
    assertEquals(parsed.conditionPhrases(3), "n came")
    assertEquals(parsed.positions.toSeq, Seq(0, 1, 2))
    assertEquals(parsed.stepName(1), "b")
  }

  test("parsing keeps every field of a transition") {
    val Array(again, onward) = parsed.transitions(1)
    assertEquals((again.target, again.contiguity, again.disabledBy.toSeq), (1, Contiguity.Relaxed, Seq(4)))
    assertEquals((onward.target, onward.contiguity, onward.yieldsTo.toSeq), (2, Contiguity.Strict, Seq(0)))
    val immediate = edited("[1, 'relaxed', [3, 4], [], []]", "[1, 'any', [], [3], []]")
    assertEquals(immediate.transitions(0).head.contiguity, Contiguity.Any)
    assertEquals(immediate.transitions(0).head.disabledByNext.toSeq, Seq(3))
  }

  test("only a position with an unconditional accepting transition completes the pattern") {
    assertEquals(parsed.accepts.toSeq, Seq(false, false, true))
    assert(parsed.transitions(2).head.acceptsAtOnce)
    assertEquals(parsed.trailingNegations.toSeq, Seq(0L, 0L, 0L))
    val negated = edited("[-1, 'relaxed', [], [], []]", "[-1, 'relaxed', [3], [], []]")
    assertEquals(negated.accepts.toSeq, Seq(false, false, false))
    assertEquals(negated.trailingNegations.toSeq, Seq(0L, 0L, 1L))
  }

  test("a position is entered with all transitions enabled, and as adjacent if it reads the next row") {
    assertEquals(parsed.enabledOnEntry.toSeq, Seq(1L, 3L | Automaton.Adjacent, 0L))
    assertEquals(parsed.enabledInitially, 1L)
    assert(parsed.everyRowCounts)
    assert(!edited("strict", "relaxed").everyRowCounts)
  }

  test("the conditions of a position are those of its targets and those that disable its transitions") {
    assertEquals(parsed.conditionsRead.map(_.toSet).toSeq, Seq(Set(1, 3, 4), Set(1, 2, 4), Set.empty[Int]))
  }

  test("a partial match waits for the targets of its enabled transitions") {
    assertEquals(parsed.awaited(1, 3L), Seq("b", "c"))
    assertEquals(parsed.awaited(1, 2L | Automaton.Adjacent), Seq("c"))
    assertEquals(parsed.awaited(2, 1L), Seq("the end"))
  }

  private def outcome(position: Int, enabled: Long, satisfied: Int*): TransitionOutcome =
    TransitionOutcome.of(parsed, parsed.transitions(position), enabled, satisfied.contains(_))

  test("a row that satisfies a disabling condition disables the transition before it can take the row") {
    assertEquals(outcome(0, 1L, 1), TransitionOutcome(taken = 1L, enabled = 0L))
    assertEquals(outcome(0, 1L, 0), TransitionOutcome(taken = 0L, enabled = 1L))
    assertEquals(outcome(0, 1L, 1, 3), TransitionOutcome(taken = 0L, enabled = 0L))
  }

  test("a transition yields to one with precedence that takes the row, and a strict one needs the next row") {
    val entered = parsed.enabledOnEntry(1)
    assertEquals(outcome(1, entered, 1, 2), TransitionOutcome(taken = 1L, enabled = 0L))
    assertEquals(outcome(1, entered, 2), TransitionOutcome(taken = 2L, enabled = 1L))
    assertEquals(outcome(1, entered), TransitionOutcome(taken = 0L, enabled = 1L))
  }

  test("a row after the window of a partial match only comes between") {
    assertEquals(TransitionOutcome.ofExpired(parsed.transitions(1), parsed.enabledOnEntry(1)),
      TransitionOutcome(taken = 0L, enabled = 1L))
  }
}
