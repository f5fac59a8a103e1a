package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType

/** A column by its name alone, in the text of a fingerprint. */
case class NamedColumn(name: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
  override def toString: String = s"`$name`"
}

/**
 * The text of an expression's meaning: independent of spelling, of the order of commuting operands, of
 * expression ids.
 */
class Fingerprint(scope: ColumnScope) {
  // Spark truncates long texts by default, and two expressions that differ after the cut would look the same.
  private val untruncated = {
    val conf = scope.spark.sessionState.conf.clone()
    conf.setConf(SQLConf.MAX_TO_STRING_FIELDS, Int.MaxValue)
    conf
  }

  /** `named`: what attributes that are not columns of the source are called. */
  def apply(e: Expression, named: Map[ExprId, String] = Map.empty): String = {
    val names = named ++ scope.source.map(a => a.exprId -> a.name)
    val renamed = scope.inSource(e).transform {
      case a: AttributeReference if names.contains(a.exprId) =>
        a.withExprId(Fingerprint.stableId(names(a.exprId)))
      case v: NamedLambdaVariable => v.copy(exprId = Fingerprint.stableId(v.name))
    }
    val nameOf = names.values.map(n => Fingerprint.stableId(n) -> n).toMap
    val text = renamed.canonicalized.transform {
      case a: AttributeReference if nameOf.contains(a.exprId) => NamedColumn(nameOf(a.exprId), a.dataType)
    }
    SQLConf.withExistingConf(untruncated)(text.toString)
  }

  def aggregate(name: String, aggregate: Column, keys: Seq[String]): String =
    ColumnScope.aggregate(scope, keys, Seq(name -> aggregate)).aggregateExpressions.drop(keys.length)
      .map(e => apply(ColumnScope.unalias(e))).mkString

  def fold(fold: UserFold, keys: Seq[String]): String = {
    val keyColumns = keys.map(k => scope.seen.find(_.name.equalsIgnoreCase(k)).get)
    val analyzed = fold.analyzed(scope, keyColumns)
    val text = parts(fold, analyzed)(_)
    val retract = fold.retract.map { r =>
      // Analyzed as an update, which is what a retraction is.
      val retracting = fold.copy(update = r).analyzed(scope, keyColumns)
      s" retract(${parts(fold, retracting)(retracting.update)})"
    }
    s"fold zero(${text(analyzed.zero)}) update(${text(analyzed.update)}) " +
      s"merge(${analyzed.merge.map(text).getOrElse("")})${retract.getOrElse("")} " +
      s"result(${text(analyzed.result)})"
  }

  private def parts(fold: UserFold, analyzed: AggregateFold)(expressions: Seq[Expression]): String = {
    val fields = (analyzed.state ++ analyzed.right).map(_.exprId)
    val named = fields.zip(fold.fields.map("state." + _) ++ fold.fields.map("other." + _)).toMap
    expressions.map(e => apply(ColumnScope.unalias(e), named)).mkString(", ")
  }
}

object Fingerprint {
  private val Ids = new java.util.UUID(0, 0)
  /**
   * Commuting operands are ordered by the names of their columns, not by ids that change with each analysis.
   */
  private def stableId(name: String): ExprId = ExprId(name.toLowerCase.hashCode & 0x7fffffffL, Ids)
}
