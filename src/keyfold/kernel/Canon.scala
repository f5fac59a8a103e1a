package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.expressions._

/** Expressions as text in which spelling, order of commuting operands and expression ids don't show. */
class Canon(lens: Lens) {
  private val stable = lens.source.map(a => a.exprId -> a.name).toMap
  def apply(e: Expression): String = lens.inSource(e).transform {
    case a: AttributeReference if stable.contains(a.exprId) => AttributeReference(a.name, a.dataType)(ExprId(a.name.toLowerCase.hashCode & 0x7fffffffL, Canon.id))
  }.canonicalized.transform { case a: AttributeReference => names.get(a.exprId.id).map(n => AttributeReference(n, a.dataType)(a.exprId)).getOrElse(a) }
    .toString.replaceAll("#\\d+L?", "")
  private val names = lens.source.map(a => (a.name.toLowerCase.hashCode & 0x7fffffffL) -> a.name).toMap

  def column(c: Declared, keys: Seq[String]): String = c match {
    case Declared(name, Some(col), _) => Lens.aggregate(lens, keys, Seq(name -> col)).aggregateExpressions.drop(keys.length).map(e => apply(Lens.unalias(e))).mkString
    case Declared(_, _, own) =>
      val f = own.get
      val mine = Fold.own(lens, keys.map(k => lens.seen.find(_.name.equalsIgnoreCase(k)).get), f)
      val fields = (mine.state ++ mine.right).zip(f.fields.map("state." + _) ++ f.fields.map("other." + _)).map { case (a, n) => a.exprId -> n }.toMap
      def show(e: Expression) = apply(e.transform { case a: AttributeReference if fields.contains(a.exprId) => AttributeReference(fields(a.exprId), a.dataType)(ExprId(fields(a.exprId).hashCode & 0x7fffffffL, Canon.id)) })
      s"fold zero(${mine.zero.map(show).mkString(", ")}) update(${mine.update.map(show).mkString(", ")}) merge(${mine.merge.map(_.map(show).mkString(", ")).getOrElse("")}) result(${mine.result.map(r => show(Lens.unalias(r))).mkString})"
  }
}

object Canon { val id: java.util.UUID = new java.util.UUID(0, 0) }
