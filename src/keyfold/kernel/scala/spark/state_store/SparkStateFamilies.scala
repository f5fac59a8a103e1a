package org.apache.spark.sql.keyfold.spark.state_store

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.{
  LeftSide, RightSide}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.SymmetricHashJoinStateManager
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{StateVariableType,
  TransformWithStateOperatorProperties}
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadata, OperatorStateMetadataV2}

/** What Spark's operators know of their column families and no file of a checkpoint says. */
object SparkStateFamilies {
  /** The families of a join in format 4: its rows by key and time, and an index of them by time and key. */
  private val ofJoin = SymmetricHashJoinStateManager.allStateStoreNamesV4(LeftSide, RightSide).toSet

  /** The families of an operator in which a key has a list of values. */
  def withManyValues(operator: OperatorStateMetadata): Set[String] =
    if (operator.operatorInfo.operatorName == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME) ofJoin
    else if (evolves(operator)) variables(operator).filter(_.stateVariableType == StateVariableType.ListState)
      .map(_.stateName).toSet
    else Set.empty

  /** Whether an operator's values may be of several schemas, which then have numbers. */
  def evolves(operator: OperatorStateMetadata): Boolean =
    StatefulOperatorsUtils.TRANSFORM_WITH_STATE_OP_NAMES.contains(operator.operatorInfo.operatorName)

  /** Whether a family is an index or the like, which is not counted among the state's keys. */
  def isInternal(family: String): Boolean =
    family.startsWith("$") || (ofJoin(family) && family.endsWith("-tsWithKey"))

  private def variables(operator: OperatorStateMetadata) =
    TransformWithStateOperatorProperties.fromJson(
      operator.asInstanceOf[OperatorStateMetadataV2].operatorPropertiesJson).stateVariables
}
