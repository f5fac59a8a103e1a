package org.apache.spark.sql.keyfold

import com.univocity.parsers.csv.CsvParser
import org.apache.hadoop.fs.Path
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.execution.datasources.CodecStreams
import org.apache.spark.sql.execution.keyfold.Place
import org.apache.spark.unsafe.types.UTF8String

/** Spark fills CSV columns by position; a file whose header names other columns would be read into the wrong ones. */
class Headers(gate: Gate) {
  private val file = gate.index(Names.File)
  private val all = gate.visible.map(_.name).toArray
  private var last: UTF8String = _
  private var verdict: String = _

  /** What is wrong with the header of the row's file, or null; looked at once a file. */
  def wrong(row: InternalRow): String = {
    val path = row.getUTF8String(file)
    // A row that came from no file: a late one that is read again, or one that only moves time.
    if (path == null) return null
    if (path != last) { last = path.clone(); verdict = check(path.toString) }
    verdict
  }

  private def check(url: String): String = {
    val options = new CSVOptions(gate.origin.csv.get, columnPruning = false, gate.zone)
    val path = SparkPath.fromUrlString(url).toPath
    val in = CodecStreams.createInputStreamWithCloseResource(SparkHadoopUtil.get.conf, path)
    try {
      val line = new java.io.BufferedReader(new java.io.InputStreamReader(in, options.charset)).readLine()
      // What directories say of the file's rows is not in it.
      val filled = gate.origin.csv.get.get(Place.Base).map(Place.directories(path, _)).getOrElse(Nil)
      val expected = all.filterNot(column => filled.exists(_._1.equalsIgnoreCase(column)))
      val found = Option(line).map(l => new CsvParser(options.asParserSettings).parseLine(l.stripPrefix("\uFEFF"))).getOrElse(Array.empty[String])
      val same = found.length == expected.length && found.zip(expected).forall { case (f, e) => f != null && f.trim.equalsIgnoreCase(e) }
      if (same) null else s"the header of ${new Path(url).getName} is ${found.mkString(",")}, the schema asks for ${expected.mkString(",")}"
    } finally in.close()
  }
}
