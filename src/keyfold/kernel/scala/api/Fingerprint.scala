package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnScope, UserFold}
import org.apache.spark.sql.types.DataType

/** A column by its name alone; only for reading as text. */
case class NamedColumn(name: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
  override def toString: String = s"`$name`"
}

/** Expressions as text in which spelling, order of commuting operands and expression ids don't show. */
class Fingerprint(lens: ColumnScope) {
  // Spark cuts long texts by default, and what is cut can't differ.
  private val uncut = { val c = lens.spark.sessionState.conf.clone(); c.setConf(SQLConf.MAX_TO_STRING_FIELDS, Int.MaxValue); c }

  def apply(e: Expression, named: Map[ExprId, String] = Map.empty): String = {
    val names = named ++ lens.source.map(a => a.exprId -> a.name)
    // Operands that commute are ordered by what their columns are called, not by ids that change with each analysis.
    def stable(name: String) = ExprId(name.toLowerCase.hashCode & 0x7fffffffL, Fingerprint.Same)
    val renamed = lens.inSource(e).transform {
      case a: AttributeReference if names.contains(a.exprId) => a.withExprId(stable(names(a.exprId)))
      case v: NamedLambdaVariable => v.copy(exprId = stable(v.name))
    }
    val back = names.values.map(n => stable(n) -> n).toMap
    val text = renamed.canonicalized.transform { case a: AttributeReference if back.contains(a.exprId) => NamedColumn(back(a.exprId), a.dataType) }
    SQLConf.withExistingConf(uncut)(text.toString)
  }

  def column(c: DeclaredColumn, keys: Seq[String]): String = c match {
    case DeclaredColumn(name, Some(col), _) => ColumnScope.aggregate(lens, keys, Seq(name -> col)).aggregateExpressions.drop(keys.length).map(e => apply(ColumnScope.unalias(e))).mkString
    case DeclaredColumn(_, _, own) =>
      val f = own.get
      def made(f: UserFold) = AggregateFold.own(lens, keys.map(k => lens.seen.find(_.name.equalsIgnoreCase(k)).get), f)
      def show(of: AggregateFold)(parts: Seq[Expression]) = {
        val fields = (of.state ++ of.right).map(_.exprId).zip(f.fields.map("state." + _) ++ f.fields.map("other." + _)).toMap
        parts.map(e => apply(ColumnScope.unalias(e), fields)).mkString(", ")
      }
      val mine = made(f)
      val text = show(mine)(_)
      // Taking a row back is another update.
      val retract = f.retract.map { r => val back = made(f.copy(update = r)); s" retract(${show(back)(back.update)})" }.getOrElse("")
      s"fold zero(${text(mine.zero)}) update(${text(mine.update)}) merge(${mine.merge.map(text).getOrElse("")})$retract result(${text(mine.result)})"
  }
}

object Fingerprint { val Same: java.util.UUID = new java.util.UUID(0, 0) }
