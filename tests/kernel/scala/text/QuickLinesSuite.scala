package org.apache.spark.sql.keyfold.text

import scala.util.Random

import com.fasterxml.jackson.core.JsonFactory
import org.apache.hadoop.io.Text

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.{CSVExprUtils, CSVOptions, UnivocityParser}
import org.apache.spark.sql.catalyst.json.{CreateJacksonParser, JSONOptionsInRead, JacksonParser}
import org.apache.spark.sql.catalyst.util.FailureSafeParser
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The quick ways to read lines give what Spark's parsers give, or leave the line to them. */
class QuickLinesSuite extends munit.FunSuite {
  private val raw = "_raw"
  private val columns = StructType.fromDDL(
    "t string, b tinyint, s smallint, i int, l bigint, d double, yes boolean, ts timestamp, day date")
  private val schema = columns.add(raw, StringType)
  private val options = Map("columnNameOfCorruptRecord" -> raw)

  private def values(row: InternalRow): Seq[Any] = row.toSeq(schema).map {
    case text: UTF8String => text.getBytes.toSeq
    // Tells -0.0 from 0.0.
    case double: Double => java.lang.Double.doubleToRawLongBits(double)
    case other => other
  }

  private trait Lines {
    def quick(line: Array[Byte]): InternalRow
    def sparks(line: Array[Byte]): Seq[Seq[Any]]

    /** Whether the quick way reads the line; if so, Spark reads the same row from it, and no other. */
    def isQuick(line: Array[Byte]): Boolean = {
      // Buffers are longer than the line in them.
      val found = Option(quick(line)).map(values)
      found.foreach(row => assertEquals(sparks(line), Seq(row), new String(line, "UTF-8")))
      found.isDefined
    }

    def isQuick(line: String): Boolean = isQuick(line.getBytes("UTF-8"))
  }

  private object Json extends Lines {
    private val parser = {
      val json = new JSONOptionsInRead(options, "UTC", raw)
      val jackson = new JacksonParser(columns, json, allowArrayAsStructs = true, Nil)
      val begin = (factory: JsonFactory, line: Text) => CreateJacksonParser.text(factory, line)
      val literal = (line: Text) => UTF8String.fromBytes(line.getBytes, 0, line.getLength)
      new FailureSafeParser[Text](jackson.parse(_, begin, literal), json.parseMode, schema, raw)
    }
    private val reader = new QuickJson(schema, raw)
    def quick(line: Array[Byte]): InternalRow = reader.read(line ++ "}\"".getBytes, line.length)
    def sparks(line: Array[Byte]): Seq[Seq[Any]] = parser.parse(new Text(line)).map(values).toList
  }

  private class Csv(delimiter: Char) extends Lines {
    private val csv =
      new CSVOptions(options + ("sep" -> delimiter.toString), columnPruning = true, "UTC", raw)
    private val parser = {
      val univocity = new UnivocityParser(columns, columns, csv)
      new FailureSafeParser[String](univocity.parse(_), csv.parseMode, schema, raw)
    }
    private val reader = new QuickCsv(schema, raw, delimiter.toByte)
    def quick(line: Array[Byte]): InternalRow = reader.read(line ++ s"$delimiter\"".getBytes, line.length)
    def sparks(line: Array[Byte]): Seq[Seq[Any]] =
      CSVExprUtils.filterCommentAndEmpty(Iterator(new String(line, "UTF-8")), csv)
        .flatMap(parser.parse).map(values).toList
  }

  private val random = new Random(17)
  private def one[T](choices: T*): T = choices(random.nextInt(choices.length))
  private def digits(most: Int): String = (1 + random.nextInt(9)).toString + "0123456789" * 3 take
    (1 + random.nextInt(most))
  private def number: String = one("", "-") + one("0", digits(18), random.nextInt(1000).toString)
  private def decimal: String = one(
    random.nextDouble().toString, (random.nextDouble() * 100).toString, s"$number.${digits(20)}", number,
    "0.1", "-0.0", "9007199254740993", "9007199254740993.0", "0.000000000000000000001",
    "123456789012345678901234",
    (random.nextInt(1000000) / 100.0).toString).replace("E", "0")
  private def fields: Seq[(String, String)] = Seq(
    "t" -> one("", "a", "naïve", "x y", "key-0000017", "\uFFFD", "\u2028", "😀", "a'b"),
    "b" -> (random.nextInt(256) - 128).toString, "s" -> random.nextInt(100).toString,
    "i" -> random.nextInt().toString, "l" -> number, "d" -> decimal, "yes" -> one("true", "false"),
    "ts" -> one("2026-01-31T12:34:56Z", "1999-12-31 23:59:59.999999+05:45", "2024-02-29T00:00:00.5-11:00"),
    "day" -> one("2026-01-31", "1600-01-01", "2000-02-29", "9999-12-31"))

  private def json: String = {
    val texts = Set("t", "ts", "day")
    val own = random.shuffle(fields).take(1 + random.nextInt(9)).map { case (name, value) =>
      s""""$name":${if (random.nextInt(9) == 0) "null" else if (texts(name)) s""""$value"""" else value}"""
    }
    val unknown = one(Nil, Seq("\"other\": 12"), Seq("\"o\" : \"ü\""), Seq("\"T\":null", "\"\":false"))
    s"{${random.shuffle(own ++ unknown).mkString(one(",", ", ", " ,\t"))}${one("}", " } ")}"
  }

  private def csv(delimiter: Char): String = fields.map { case (_, value) =>
    one(value, value, value, "", if (value.isEmpty) "" else s""""$value"""")
  }.mkString(delimiter.toString)

  private def changed(line: String): Array[Byte] = {
    val bytes = line.getBytes("UTF-8")
    val at = random.nextInt(bytes.length)
    val other = one("\"", "\\", ",", "}", "{", ":", " ", "-", "0", ".", "e", "E", "+", "\u0000", "\r", "\t",
      "'", "n", "null", "[", "/", "1", "é", "\u00a0", ";", "NaN").getBytes("UTF-8")
    random.nextInt(4) match {
      case 0 => bytes.patch(at, other, 1)
      case 1 => bytes.patch(at, other, 0)
      case 2 => bytes.patch(at, Nil, 1 + random.nextInt(3))
      case _ => bytes.updated(at, random.nextInt(256).toByte)
    }
  }

  /** How many of the lines the quick way reads, as they are and with a small change. */
  private def compared(lines: Lines, line: => String): (Int, Int) = {
    val made = Seq.fill(20000)(line)
    (made.count(lines.isQuick(_)), made.count(l => lines.isQuick(changed(l))))
  }

  test("lines of JSON are read as Spark reads them, or left to it") {
    val (asTheyAre, changed) = compared(Json, json)
    // Whole numbers of more digits than a long has, and the like, are left to Spark.
    assert(asTheyAre > 15000 && changed > 2000, (asTheyAre, changed))
  }

  test("lines of CSV are read as Spark reads them, or left to it") {
    for (delimiter <- Seq(',', ';', '\t', '|')) {
      val (asTheyAre, changed) = compared(new Csv(delimiter), csv(delimiter))
      assert(asTheyAre > 12000 && changed > 2000, (delimiter, asTheyAre, changed))
    }
  }

  test("odd lines are left to Spark") {
    val odd = Seq("", " ", "{}", "[]", "{'t':'a'", "{'t':'a'}}", "{'t':'a'} x", "{t:1}", "{'t':1}",
      "{'i':'1'}", "{'i':1.0}", "{'i':2147483648}", "{'b':128}", "{'l':007}", "{'l':-0}",
      "{'l':9223372036854775808}", "{'d':1e3}", "{'d':NaN}", "{'d':.5}", "{'d':5.}", "{'d':-}", "{'d':+1}",
      "{'yes':'true'}", "{'yes':True}", "{'ts':17}", "{'ts':'2026-01-31'}", "{'ts':''}",
      "{'t':'a','t':'b'}", "{'t':'a',}", "{,'t':'a'}", "{'t':'\\u0061'}", "{'x':{}}", "{'x':[1]}",
      "{'x':nulls}", "{'t' 'a'}", "{'i':1 2}", "nullx", s"{'t':'${"a" * QuickColumns.MaxLine}'}")
    // Spark's parser accepts single quotes too.
    for (line <- odd ++ odd.map(_.replace('\'', '"'))) assert(!Json.isQuick(line), line)
    val lines = new Csv(',')
    Seq("", " ", "a", "a,1,1,1,1,1,true,2026-01-31T12:34:56Z", "a,1,1,1,1,1,true,,2026-01-31,",
      "\"\",1,1,1,1,1,true,,", "\"a\"b,1,1,1,1,1,true,,", " a,1,1,1,1,1,true,,", "a,+1,1,1,1,1,true,,",
      "a,1,1,1,1,NaN,true,,", "a,1,1,1,1,-0,true,,", "a,1,1,1,1,1,TRUE,,", "a,300,1,1,1,1,true,,",
      "\"a,1,1,1,1,1,true,,").foreach(line => assert(!lines.isQuick(line), line))
    Seq(",,,,,,,,", "a,1,1,1,1,1,true,,").foreach(line => assert(lines.isQuick(line), line))
  }

  test("only schemas and options that change nothing are read in the quick way") {
    val streaming = Map("maxFilesPerTrigger" -> "2", "recursiveFileLookup" -> "false",
      FileFormat.OPTION_RETURNING_BATCH -> "false", "ignoreCorruptFiles" -> "false", "header" -> "true")
    assert(QuickColumns.canRead(columns, options ++ streaming))
    for (name <- Seq("timestampFormat", "mode", "nullValue", "comment", "primitivesAsString", "encoding"))
      assert(!QuickColumns.canRead(columns, Map(name -> "x")), name)
    for (kind <- Seq("float", "decimal(9,2)", "binary", "timestamp_ntz", "array<int>", "struct<a: int>"))
      assert(!QuickColumns.canRead(columns.add("other", DataType.fromDDL(kind)), Map.empty), kind)
    assert(!QuickColumns.canRead(new StructType, Map.empty))
  }

  test("a line of white space is left to Spark, which drops it; of other delimiters it is a row of nulls") {
    assert(!new Csv('\t').isQuick("\t" * 8))
    assert(new Csv('\t').isQuick("a" + "\t" * 8))
    assert(new Csv(',').isQuick("," * 8))
  }
}
