package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions.{Ascending, AttributeReference, SortOrder}
import org.apache.spark.sql.execution.{LocalTableScanExec, SortExec, SparkPlan}
import org.apache.spark.sql.types.LongType

/** The words for a plan that has another node than the kernel relies on. */
class PlanCheckSuite extends munit.FunSuite {
  private val key = AttributeReference("key", LongType)()
  private val scan: SparkPlan = LocalTableScanExec(Seq(key), Nil, None)

  test("a plan without the kernel's top names what it has instead") {
    assertEquals(
      PlanCheck.shape(scan),
      Some("plans LocalTableScan at the top, where keyfold needs WatermarkPropagationExec: " +
        "it passes the watermark on"))
  }

  test("a node in between is named with its place") {
    val sort = SortExec(Seq(SortOrder(key, Ascending)), global = false, scan)
    assertEquals(
      PlanCheck.shape(WatermarkPropagationExec(UnwrapExec(Seq(key), sort))),
      Some("plans Sort below UnwrapExec, where keyfold needs TransformWithStateExec with the kernel's " +
        "processor: it holds the state"))
  }

  test("a plan that ends too early is named by its last node") {
    val empty = WatermarkPropagationExec(scan)
    assertEquals(
      PlanCheck.shape(empty),
      Some("plans LocalTableScan below WatermarkPropagationExec, where keyfold needs UnwrapExec: " +
        "it turns emitted objects into rows"))
  }
}
