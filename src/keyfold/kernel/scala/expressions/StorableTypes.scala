package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.types._

/** Refuses types that state can't hold, or that can't be a key. */
object StorableTypes {
  /** `what`: whose type it is; `why`: what its being in state follows from. */
  def require(dataType: DataType, what: String = "", why: String = ""): Unit =
    if (!ColumnScope.storable(dataType)) {
      val subject = if (what.isEmpty) dataType.sql else s"$what is of type ${dataType.sql}, which"
      val advice = "turn it into a number or a text first"
      throw new RefusedException(s"$subject can't be kept in state$why; $advice")
    }

  def require(schema: StructType): Unit = schema.foreach(f => require(f.dataType))

  def requireGroupable(name: String, dataType: DataType): Unit = {
    if (!UnsafeRowUtils.isBinaryStable(dataType)) throw new RefusedException(
      s"$name has a collation (${dataType.sql}), under which equal texts have other bytes; " +
        s"group by lower($name) or another plain text")
    if (dataType.existsRecursively(_.isInstanceOf[MapType]))
      throw new RefusedException(s"$name is a map, and maps have no equality to group by")
    require(dataType)
  }
}
