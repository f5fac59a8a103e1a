package org.apache.spark.sql.keyfold.expressions

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatchRow}
import org.apache.spark.unsafe.types.UTF8String

/** Asks a row, and so can't be generated for columns. */
case class Interpreted(child: Expression) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = child.dataType
  override protected def nullSafeEval(value: Any): Any = value
  override protected def withNewChildInternal(c: Expression): Interpreted = copy(c)
}

/** Positions in columns are folded as rows are. */
class ColumnFoldSuite extends munit.FunSuite {
  private val money = DecimalType(20, 2)
  private val word = AttributeReference("word", StringType)()
  private val x = AttributeReference("x", LongType)()
  private val y = AttributeReference("y", DoubleType)()
  private val m = AttributeReference("m", money)()
  private val at = AttributeReference("at", TimestampType)()
  private val day = AttributeReference("day", DateType)()
  private val pair = AttributeReference("pair", new StructType().add("first", LongType))()
  private val list = AttributeReference("list", ArrayType(LongType))()
  private val in = Seq(word, x, y, m, at, day, pair, list)

  private def field(name: String, of: DataType) = AttributeReference(name, of)()

  /** A fold whose fields are computed from these and from the row. */
  private def fold(fields: (AttributeReference, Expression, Expression)*): AggregateFold = AggregateFold(
    in, Nil, fields.map(_._1), fields.map(_._1.newInstance().asInstanceOf[AttributeReference]),
    fields.map(_._2), fields.map(_._3), None, fields.map(_._1), Nil)

  private val n = field("n", LongType)
  private val total = field("total", DoubleType)
  private val most = field("most", LongType)
  private val sum = field("sum", money)
  private val flag = field("flag", BooleanType)
  private val every = fold(
    (n, Literal(0L), Add(n, Literal(1L))),
    (total, Literal(null, DoubleType), Coalesce(Seq(Add(total, y), total, y))),
    (most, Literal(null, LongType), Greatest(Seq(most, If(GreaterThan(x, n), x, Literal(null, LongType))))),
    (sum, Literal(Decimal(0, 20, 2), money),
      Coalesce(Seq(Cast(Add(sum, m), money), Literal(null, money)))),
    (flag, Literal(false), Or(flag, EqualTo(word, Literal("yes")))))

  /** Columns with the values of `in`, of which the last are null where rows are shorter. */
  private def columns(rows: Seq[Seq[Any]]): Array[ColumnVector] = in.indices.map { column =>
    val vector = new OnHeapColumnVector(rows.length, in(column).dataType)
    rows.indices.foreach(i => rows(i).lift(column).orNull match {
      case null => vector.putNull(i)
      case text: String => vector.putByteArray(i, text.getBytes)
      case days: Int => vector.putInt(i, days)
      case long: Long => vector.putLong(i, long)
      case double: Double => vector.putDouble(i, double)
      case decimal: Decimal => vector.putDecimal(i, decimal, 20)
      case (first: Long, _) => vector.getChild(0).asInstanceOf[OnHeapColumnVector].putLong(i, first)
      case items: Array[Long] =>
        val child = vector.arrayData()
        val begun = child.getElementsAppended
        items.foreach(child.appendLong)
        vector.putArray(i, begun, items.length)
    })
    vector: ColumnVector
  }.toArray

  private def random(seed: Int): Seq[Seq[Any]] = {
    val random = new Random(seed)
    def maybe(value: => Any): Any = if (random.nextInt(4) == 0) null else value
    Seq.fill(200)(Seq(
      maybe(if (random.nextInt(20) == 0) "yes" else "no"), maybe(random.nextInt(300).toLong),
      maybe(random.nextDouble()), maybe(Decimal(random.nextInt(1000).toLong, 20, 2)),
      maybe(random.nextLong() >> 20), maybe(random.nextInt(20000)), maybe((random.nextLong(), 0)),
      maybe(Array.fill(random.nextInt(5))(random.nextLong()))))
  }

  test("positions give the states that rows give, across batches of columns, with nulls everywhere") {
    assertEquals(assertSame(every, 5).getLong(0), 1000L)
  }

  private def assertSame(fold: AggregateFold, batches: Int): UnsafeRow = {
    val (rows, positions) = (new FoldEvaluator(fold, 0), ColumnFold(fold).get)
    val (expected, found) = (rows.zero(), rows.zero().asInstanceOf[UnsafeRow])
    (1 to batches).foreach { seed =>
      val values = random(seed)
      val vectors = columns(values)
      positions.begin(vectors)
      values.indices.foreach { i =>
        val row = new ColumnarBatchRow(vectors)
        row.rowId = i
        rows.update(expected, row)
        positions.update(found, i)
        assertEquals(found, expected, s"seed $seed, position $i")
      }
    }
    found
  }

  test("a state is as it was where an expression throws") {
    val dividing = fold(
      (n, Literal(0L), Add(n, Literal(1L))),
      (most, Literal(0L), IntegralDivide(Literal(100L), x, EvalMode.ANSI)))
    val positions = ColumnFold(dividing).get
    positions.begin(columns(Seq(Seq(null, 5L, null, null), Seq(null, 0L, null, null))))
    val state = new FoldEvaluator(dividing, 0).zero().asInstanceOf[UnsafeRow]
    positions.update(state, 0)
    intercept[ArithmeticException](positions.update(state, 1))
    assertEquals((state.getLong(0), state.getLong(1)), (1L, 20L))
  }

  test("each field is computed from the state before any is set") {
    val (a, b) = (field("a", LongType), field("b", LongType))
    val swapping = fold((a, Literal(1L), b), (b, Literal(2L), a))
    val positions = ColumnFold(swapping).get
    positions.begin(columns(Seq(Seq(null, null, null, null))))
    val state = new FoldEvaluator(swapping, 0).zero().asInstanceOf[UnsafeRow]
    positions.update(state, 0)
    assertEquals((state.getLong(0), state.getLong(1)), (2L, 1L))
  }

  test("what asks a row, or is not deterministic, is folded by row") {
    assertEquals(ColumnFold(fold((n, Literal(0L), Add(n, Interpreted(x))))), None)
    assertEquals(ColumnFold(fold((total, Literal(0.0), Add(total, Rand(Literal(1L)))))), None)
  }

  private def wide(fields: Int): AggregateFold = fold(Seq.tabulate(fields) { i =>
    val f = field(s"f$i", LongType)
    (f, Literal(0L), Greatest(Seq(Add(f, x), Literal(i.toLong), f)))
  }: _*)

  test("what Java would not compile is folded by row: methods that are long, or too long for a class") {
    assert(ColumnFold(wide(10)).isDefined)
    assertEquals(ColumnFold(wide(150)), None)
    assertEquals(ColumnFold(wide(1500)), None)
    assertEquals(ColumnFold(wide(1500)), None)
  }

  test("without generated code everything is folded by row") {
    val conf = new SQLConf
    conf.setConf(SQLConf.CODEGEN_FACTORY_MODE, CodegenObjectFactoryMode.NO_CODEGEN)
    assertEquals(SQLConf.withExistingConf(conf)(ColumnFold(every)), None)
  }

  /** A fold of Spark's own aggregates. */
  private def aggregates(functions: DeclarativeAggregate*): AggregateFold = {
    val state = functions.flatMap(_.aggBufferAttributes)
    AggregateFold(in, Nil, state, state.map(_.newInstance().asInstanceOf[AttributeReference]),
      functions.flatMap(_.initialValues), functions.flatMap(_.updateExpressions), None, state, Nil)
  }

  test("Spark's own aggregates give the states that rows give, of all types of columns") {
    val costly = Length(Upper(word))
    val fold = aggregates(
      Count(Literal(1)), Sum(x), Average(y), Min(x), Max(y), StddevSamp(y), Sum(m), Average(m),
      Sum(costly), Average(costly), Max(costly), Skewness(y), Max(UnixMicros(at)), Min(day),
      Max(GetStructField(pair, 0)), Max(Size(list, legacySizeOfNull = false)))
    assertSame(fold, 6)
  }

  test("a fold whose states are objects is folded by row") {
    val text = field("text", StringType)
    assertEquals(ColumnFold(fold((text, Literal(UTF8String.fromString("")), word))), None)
  }
}
