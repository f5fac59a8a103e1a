package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.ValidKey
import org.apache.spark.sql.types._

/** What keys must be, in rows that begin with them. */
class KeyValidation(keys: Seq[Expression]) {
  private val names = keys.map { case n: NamedExpression => n.name; case e => e.sql }.toArray
  private val texts = keys.indices.filter(keys(_).dataType.isInstanceOf[StringType]).toArray

  /** Which key column is no text, in words, or null: no reader could ask for such a key. */
  def garbled(row: InternalRow): String = {
    var i = 0
    while (i < texts.length) { if (!row.getUTF8String(texts(i)).isValid) return ValidKey.garbled(names(texts(i))); i += 1 }
    null
  }

  /** Which key column is null, in words, or null if none is. */
  def missing(row: InternalRow): String = {
    var i = 0
    while (i < names.length) { if (row.isNullAt(i)) return ValidKey.missing(names(i)); i += 1 }
    null
  }

  /** Why a key can't be one, or null. */
  def wrong(row: InternalRow): String = { val m = missing(row); if (m != null) m else garbled(row) }
}
