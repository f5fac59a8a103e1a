package org.apache.spark.sql.keyfold.spark.scan

import java.lang.reflect.Field

import scala.util.Try

import org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.vectorized.ColumnVector

/**
 * The numbers by which a file's dictionary knows the values of a column, where Spark has read the numbers and
 * not yet the values. A number means the same value as long as `identity` is the same object.
 */
final class SparkDictionary private (val identity: AnyRef, numbers: WritableColumnVector) {
  def number(position: Int): Int = numbers.getDictId(position)
}

object SparkDictionary {
  // Spark tells nobody which dictionary the numbers are of. Without these fields columns have no numbers.
  private val vectors = field(classOf[WritableColumnVector])
  private val files = field(classOf[ParquetDictionary])

  private def field(of: Class[_]): Option[Field] = Try {
    val found = of.getDeclaredField("dictionary")
    found.setAccessible(true)
    found
  }.toOption

  /** The numbers of a column in the batch that it holds now. */
  def apply(column: ColumnVector): Option[SparkDictionary] = column match {
    case vector: WritableColumnVector if vector.hasDictionary =>
      for (dictionary <- vectors.map(_.get(vector)); shared <- inFile(dictionary))
        yield new SparkDictionary(shared, vector.getDictionaryIds)
    case _ => None
  }

  /** Spark wraps the file's dictionary once per batch. */
  private def inFile(wrapper: AnyRef): Option[AnyRef] = wrapper match {
    case parquet: ParquetDictionary => files.map(_.get(parquet))
    case _ => None
  }
}
