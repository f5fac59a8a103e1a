package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.InternalRow

/** Matched rows as nodes, and the collections of partial and deferred matches. */
class MatchedRowsSuite extends munit.FunSuite {
  /** Rows with the times 10, 20, ... */
  private def rows(count: Int): MatchedRows = {
    val matched = new MatchedRows
    (1 to count).foreach(n => matched.addRow(InternalRow(n), n * 10L, MatchedRows.rowId(n, 0)))
    matched
  }
  /** The last node of a match of these rows, each by a position. */
  private def path(matched: MatchedRows, taken: (Int, Int)*): Int =
    taken.foldLeft(-1) { case (previous, (row, position)) => matched.addNode(row, position, previous) }

  test("a path leads from the first row to the last, also where two share their beginning") {
    val matched = rows(4)
    val shared = path(matched, 0 -> 0, 1 -> 1)
    val (a, b) = (matched.addNode(2, 2, shared), matched.addNode(3, 2, shared))
    assertEquals(matched.path(a).toSeq.map(matched.row), Seq(0, 1, 2))
    assertEquals(matched.path(b).toSeq.map(matched.row), Seq(0, 1, 3))
    assertEquals(matched.path(b).toSeq.map(matched.position), Seq(0, 1, 2))
    assertEquals(matched.row(matched.first(b)), 0)
    assertEquals(matched.nodeCount, 4)
  }

  test("matches are ordered by their rows, then by the positions that took them") {
    val matched = rows(4)
    val ordered = Seq(
      path(matched, 0 -> 0), path(matched, 0 -> 0, 1 -> 1, 3 -> 2), path(matched, 0 -> 0, 2 -> 1),
      path(matched, 0 -> 0, 2 -> 3), path(matched, 1 -> 0))
    for ((a, i) <- ordered.zipWithIndex; (b, j) <- ordered.zipWithIndex)
      assertEquals(matched.compare(a, b).sign, i.compare(j).sign, s"$i $j")
  }

  test("an id depends on the row ids and positions, and not on what else is stored") {
    val (all, few) = (rows(4), new MatchedRows)
    few.addRow(InternalRow(3), 30L, all.rowIds(2))
    few.addRow(InternalRow(4), 40L, all.rowIds(3))
    val id = all.id(path(all, 2 -> 0, 3 -> 1))
    assertEquals(few.id(path(few, 0 -> 0, 1 -> 1)), id)
    assertEquals(id.length, 16)
    val others = Seq(
      path(all, 2 -> 0, 3 -> 2), path(all, 1 -> 0, 3 -> 1), path(all, 2 -> 0), path(all, 3 -> 0, 2 -> 1))
    assertEquals((id +: others.map(all.id)).distinct.length, 5)
    // Part of what is shown to users: a change would give matches new ids after an upgrade.
    assertEquals(id, "e7ed3a8110969ae7")
  }

  test("truncating removes the newest rows and nodes") {
    val matched = rows(3)
    val kept = path(matched, 0 -> 0, 1 -> 1)
    path(matched, 2 -> 0)
    matched.truncate(rowCount = 2, nodeCount = 2)
    assertEquals((matched.rowCount, matched.nodeCount, matched.times.toSeq), (2, 2, Seq(10L, 20L)))
    assertEquals(matched.path(kept).toSeq, Seq(0, 1))
    assertEquals(matched.addNode(1, 0, -1), 2)
  }

  test("an int buffer grows") {
    val buffer = new IntBuffer
    (0 until 1000).foreach(buffer += _)
    assertEquals((0 until buffer.length).map(buffer(_)), 0 until 1000)
  }

  private def starts(partials: PartialMatches): Seq[Int] = partials.startRows.toSeq.sorted

  test("partial matches with one position and the same transitions are one group") {
    val partials = new PartialMatches(rows(4), None)
    partials.add(0, 1L, lastNode = 0, startRow = 0)
    partials.add(0, 1L, lastNode = 1, startRow = 1)
    partials.add(0, 3L, lastNode = 2, startRow = 2)
    assertEquals((partials.groups.length, partials.length), (2, 3))
    val moved = new PartialMatchGroup(0, 3L)
    moved.add(lastNode = 3, startRow = 3)
    partials.replace(partials.groups, scala.collection.mutable.ArrayBuffer(moved))
    assertEquals((partials.groups.length, partials.length), (2, 4))
    partials.retain(_ < 2)
    assertEquals((partials.groups.length, starts(partials)), (1, Seq(0, 1)))
  }

  test("a partial match expires when the window since its first row is over, which is exclusive") {
    val partials = new PartialMatches(rows(3), Some(10L))
    Seq(2, 0, 1).foreach(row => partials.add(0, 1L, lastNode = row, startRow = row))
    assert(!partials.mayHaveExpired(19))
    assert(partials.mayHaveExpired(20))
    partials.removeExpired(20)
    assertEquals(starts(partials), Seq(1, 2))
    assert(!partials.mayHaveExpired(29))
    partials.removeExpired(1000)
    assert(partials.isEmpty && !partials.mayHaveExpired(10000))
    assert(!new PartialMatches(rows(1), None).expired(0, Long.MaxValue))
  }

  test("a partial match that started before a row is found, unless it has expired") {
    val partials = new PartialMatches(rows(3), Some(10L))
    partials.add(0, 1L, lastNode = 7, startRow = 0)
    assertEquals(partials.startedBefore(0, openAt = true, 10), -1)
    assertEquals(partials.startedBefore(1, openAt = true, 19), 7)
    assertEquals(partials.startedBefore(1, openAt = true, 20), -1)
    assertEquals(partials.startedBefore(1, openAt = false, 20), 7)
  }

  test("deferred matches are in the order of their first rows, then of their completion") {
    val deferred = new DeferredMatches
    def complete(node: Int, startRow: Int): Match = Match(node, startRow, 0L, timedOut = false)
    Seq(complete(0, 2), complete(1, 1), complete(2, 2), complete(3, 1)).foreach(deferred.insert)
    val nodes = Seq.newBuilder[Int]
    deferred.foreach(m => nodes += m.lastNode)
    assertEquals(nodes.result(), Seq(1, 3, 0, 2))
    val removed = Seq.newBuilder[Int]
    deferred.removeBehind(1, _ == 2)(m => removed += m.lastNode)
    deferred.removeBehind(0, _ == 2)(_ => fail("none is left"))
    assertEquals(removed.result(), Seq(2, 0))
    assertEquals(deferred.removeHead().lastNode, 1)
    assertEquals(deferred.length, 1)
  }
}
