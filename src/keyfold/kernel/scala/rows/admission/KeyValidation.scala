package org.apache.spark.sql.keyfold.rows.admission

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.ValidKey
import org.apache.spark.sql.types._

/** The requirements on keys, for rows that begin with them. */
final class KeyValidation(keys: Seq[Expression]) {
  private val names = keys.map { case n: NamedExpression => n.name; case e => e.sql }.toArray
  private val texts = keys.indices.filter(keys(_).dataType.isInstanceOf[StringType]).toArray

  /** Which key column is not valid UTF-8, as a reason, or null: no reader could ask for such a key. */
  def invalidText(row: InternalRow): String = {
    var i = 0
    while (i < texts.length) {
      if (!row.getUTF8String(texts(i)).isValid) return ValidKey.invalidText(names(texts(i)))
      i += 1
    }
    null
  }

  /** Which key column is null, as a reason, or null if none is. */
  def missing(row: InternalRow): String = {
    var i = 0
    while (i < names.length) { if (row.isNullAt(i)) return ValidKey.missing(names(i)); i += 1 }
    null
  }
}
