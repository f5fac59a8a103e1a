package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rejected rows travel under an all-null key, which no row that counts can have. */
class Lane(keys: Seq[DataType], rest: Seq[DataType]) {
  private val project = UnsafeProjection.create((keys ++ rest).map(Literal(null, _)) :+ BoundReference(0, StringType, nullable = false))
  def apply(why: UTF8String): InternalRow = project(InternalRow(why)).copy()
}

/** What keys must be, in rows that begin with them. */
class KeyCheck(keys: Seq[Expression]) {
  private val names = keys.map { case n: NamedExpression => n.name; case e => e.sql }.toArray
  private val texts = keys.indices.filter(keys(_).dataType.isInstanceOf[StringType]).toArray

  /** Which key column is no text, in words, or null: no reader could ask for such a key. */
  def garbled(row: InternalRow): String = {
    var i = 0
    while (i < texts.length) { if (!row.getUTF8String(texts(i)).isValid) return KeyCheck.garbled(names(texts(i))); i += 1 }
    null
  }

  /** Which key column is null, in words, or null if none is. */
  def missing(row: InternalRow): String = {
    var i = 0
    while (i < names.length) { if (row.isNullAt(i)) return KeyCheck.missing(names(i)); i += 1 }
    null
  }

  /** Why a key can't be one, or null. */
  def wrong(row: InternalRow): String = { val m = missing(row); if (m != null) m else garbled(row) }
}

object KeyCheck {
  def missing(name: String): String = s"key $name is null"
  def garbled(name: String): String = s"key $name is no UTF-8 text"
}

/** The same as a condition, where rows go on as they are: true if a key can be one; if not, the row is rejected with the reason. */
case class UsableKey(child: Expression, name: String) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row) match {
    case null => throw new IllegalArgumentException(KeyCheck.missing(name))
    case text: UTF8String if !text.isValid => throw new IllegalArgumentException(KeyCheck.garbled(name))
    case _ => true
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}
