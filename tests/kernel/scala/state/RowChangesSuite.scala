package org.apache.spark.sql.keyfold.state

import java.nio.ByteBuffer

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow

/** What a batch of rows and retractions does to upstream rows. */
class RowChangesSuite extends munit.FunSuite {
  /** A row as it comes through the shuffle: weight, id, change, and a value that identifies nothing. */
  private val layout = RetractionLayout(weightAt = 0, idAt = 1, changeAt = 2, retainedIdAt = 0)
  private def bytes(id: String): Array[Byte] = id.getBytes("UTF-8")
  private def id(of: String): ByteBuffer = ByteBuffer.wrap(bytes(of))
  private def row(id: String, change: Long, value: Double): InternalRow =
    InternalRow(1, bytes(id), change, value)
  private def retraction(id: String, change: Long, value: Double): InternalRow =
    InternalRow(-1, bytes(id), change, value)
  private def changes(rows: InternalRow*) = new RowChanges(rows, layout)
  private def retracted(of: RowChanges): Map[ByteBuffer, InternalRow] = of.retractions.toMap

  test("a retraction and the new row of one change replace the row, in any order of arrival") {
    val (old, fresh) = (retraction("a", 7, 0.1), row("a", 7, 0.2))
    for (batch <- Seq(old, fresh).permutations) {
      val found = changes(batch: _*)
      assert(found.touches(id("a")) && found.isLeft(fresh) && !found.isLeft(old))
      assertEquals(retracted(found), Map(id("a") -> old))
    }
  }

  test("a row that is retracted by a later change of the batch is not left, and retracts nothing") {
    val (fresh, gone) = (row("a", 7, 0.1), retraction("a", 8, 0.1 + 1e-17))
    for (batch <- Seq(fresh, gone).permutations) {
      val found = changes(batch: _*)
      assert(found.touches(id("a")) && !found.isLeft(fresh) && !found.isLeft(gone))
      assert(!found.retracts)
    }
  }

  test("of several changes the first retraction and the last row count") {
    val batch = Seq(retraction("a", 3, 1), row("a", 3, 2), retraction("a", 4, 2), row("a", 4, 3),
      retraction("a", 9, 3), row("a", 9, 4))
    for (shuffled <- Seq.fill(20)(new Random(5).shuffle(batch))) {
      val found = changes(shuffled: _*)
      assertEquals(shuffled.filter(found.isLeft), Seq(batch.last))
      assertEquals(retracted(found), Map(id("a") -> batch.head))
    }
  }

  test("a row that moved to another group is retracted here, and comes back by a later change") {
    assertEquals(retracted(changes(retraction("a", 3, 1))).keySet, Set(id("a")))
    val back = row("a", 5, 2)
    val found = changes(back, retraction("a", 3, 1))
    assert(found.isLeft(back) && found.retracts)
  }

  test("rows of different ids don't meet, whatever their columns") {
    val (a, b) = (row("a", 7, 0.1), retraction("b", 7, 0.1))
    val found = changes(a, b)
    assert(found.isLeft(a) && found.touches(id("b")) && !found.touches(id("c")) && !found.touches(null))
    assertEquals(retracted(found), Map(id("b") -> b))
  }

  test("no rows change nothing") {
    assert(changes().isEmpty && !changes().retracts)
  }

  test("a row of a union may have no id") {
    val anonymous = InternalRow(1, null, null, 0.1)
    assert(!layout.hasId(anonymous) && layout.hasId(row("a", 1, 0.1)))
    assertEquals(layout.retainedId(InternalRow(null, 0.1)), null)
    assertEquals(layout.retainedId(InternalRow(bytes("a"), 0.1)), id("a"))
    assertEquals(RetractionLayout(0, -1, -1, -1).retainedId(InternalRow(0.1)), null)
  }
}
