package org.apache.spark.sql.keyfold.spark

import org.apache.spark.sql.catalyst.csv.{CSVOptions, UnivocityParser}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{DataType, StructType, TimestampType}

/**
 * Spark's parser of CSV, with a quick way for the usual form of times where the user declares no other. All
 * else is Spark's.
 */
class SparkCsvParser(
    data: StructType, required: StructType, csv: CSVOptions, filters: Seq[Filter] = Nil)
    extends UnivocityParser(data, required, csv, filters) {
  // Called while Spark's part of this object is being made: it must not use fields of this class.
  override def makeConverter(name: String, dataType: DataType, nullable: Boolean): String => Any = {
    val sparks = super.makeConverter(name, dataType, nullable)
    if (dataType != TimestampType || options.timestampFormatInRead.isDefined) sparks
    else {
      val none = options.nullValue
      text => {
        val micros = if (text == null || text == none) QuickTimestamp.Other else QuickTimestamp.micros(text)
        if (micros == QuickTimestamp.Other) sparks(text) else micros
      }
    }
  }
}
