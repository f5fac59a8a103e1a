package org.apache.spark.sql.keyfold.spark.formats

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.Job
import org.apache.parquet.hadoop.ParquetWriter
import org.apache.parquet.hadoop.api.WriteSupport
import org.apache.parquet.hadoop.metadata.CompressionCodecName
import org.apache.parquet.io.OutputFile

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.parquet.{ParquetOptions, ParquetUtils, ParquetWriteSupport}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** Writes rows of a schema as Spark's Parquet format does; tasks and the driver use it alike. */
class SparkParquet(val schema: StructType, settings: Map[String, String], dictionaries: Boolean)
    extends Serializable {
  def writer(file: OutputFile): ParquetWriter[InternalRow] = {
    val conf = new Configuration(false)
    settings.foreach { case (name, value) => conf.set(name, value) }
    // What is read as a whole gains nothing from statistics.
    val builder = new SparkParquet.Rows(file).withConf(conf).withCompressionCodec(CompressionCodecName.SNAPPY)
      .withRowGroupSize(SparkParquet.RowGroupBytes).withDictionaryEncoding(false)
      .withStatisticsEnabled(false).withSizeStatisticsEnabled(false)
    repeating.foldLeft(builder)(_.withDictionaryEncoding(_, true)).build()
  }

  /** The columns that keys are usually made of; Parquet itself notices where values do not repeat. */
  private def repeating: Seq[String] =
    if (!dictionaries) Nil
    else schema.filter(f => SparkParquet.hasDictionary(f.dataType)).map(_.name)
}

object SparkParquet {
  // Each task that writes a part holds a row group in memory.
  private val RowGroupBytes = 16L << 20

  /** `dictionaries`: whether values that repeat are written once, which pays where rows are read often. */
  def apply(session: SparkSession, schema: StructType, dictionaries: Boolean = false): SparkParquet = {
    val (conf, job) = (session.sessionState.conf, Job.getInstance(new Configuration(false)))
    val written = storable(schema)
    ParquetUtils.prepareWrite(conf, job, written, new ParquetOptions(Map.empty[String, String], conf))
    // Spark's default is a type of nanoseconds that other readers can't represent before 1677 and after 2262.
    job.getConfiguration.set(
      SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key, SQLConf.ParquetOutputTimestampType.TIMESTAMP_MICROS.toString)
    new SparkParquet(
      written, job.getConfiguration.asScala.map(e => e.getKey -> e.getValue).toMap, dictionaries)
  }

  private def hasDictionary(dataType: DataType): Boolean = dataType match {
    case _: StringType | IntegerType | LongType | DateType => true
    case _ => false
  }

  /** The schema with a type that Parquet has in place of that of a bare null. */
  private def storable(schema: StructType): StructType =
    StructType(schema.map(f => StructField(f.name, storable(f.dataType))))

  private def storable(dataType: DataType): DataType = dataType match {
    case NullType => ByteType
    case ArrayType(element, _) => ArrayType(storable(element))
    case MapType(key, value, _) => MapType(storable(key), storable(value))
    case struct: StructType => storable(struct)
    case other => other
  }

  private class Rows(file: OutputFile) extends ParquetWriter.Builder[InternalRow, Rows](file) {
    override protected def self(): Rows = this
    override protected def getWriteSupport(conf: Configuration): WriteSupport[InternalRow] =
      new ParquetWriteSupport
  }
}
