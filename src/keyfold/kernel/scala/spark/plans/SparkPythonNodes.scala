package org.apache.spark.sql.keyfold.spark.plans

import org.apache.spark.sql.execution.SparkPlan

/** Nodes of a plan that run a user's Python functions. Their workers read rows ahead of the task. */
object SparkPythonNodes {
  def existIn(plan: SparkPlan): Boolean =
    plan.exists(_.getClass.getName.startsWith("org.apache.spark.sql.execution.python."))
}
