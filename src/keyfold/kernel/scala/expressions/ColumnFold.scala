package org.apache.spark.sql.keyfold.expressions

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.vectorized.ColumnVector

/**
 * Folds positions of columns into states of fixed width, by generated code that reads the columns and the
 * state directly. `FoldEvaluator`, which folds rows, reads each value through two row objects.
 */
abstract class ColumnFold {
  /** Sets the columns that positions are in from now on: those of the fold's input, in its order. */
  def begin(columns: Array[ColumnVector]): Unit

  /** Folds a position into a state. If an expression throws, the state is as it was. */
  def update(state: UnsafeRow, position: Int): Unit
}

object ColumnFold {
  /** None where Spark would not generate such code, or Java would not compile it. */
  def apply(fold: AggregateFold): Option[ColumnFold] =
    if (fold.flat && generates && fold.update.forall(supported)) generated(new ColumnFoldSource(fold))
    else None

  private def generates: Boolean = SQLConf.get.codegenFactoryMode != CodegenObjectFactoryMode.NO_CODEGEN

  /**
   * CodegenFallback evaluates an input row, and there is none here. Non-deterministic expressions must be
   * initialised with the partition.
   */
  private def supported(update: Expression): Boolean =
    update.deterministic && !update.exists(_.isInstanceOf[CodegenFallback])

  // Spark does not remember what failed to compile: each task of each batch would try again.
  private val refused = ConcurrentHashMap.newKeySet[String]()
  private val MostRefused = 100
  // Longer code can't be short enough when it is compiled, and Spark would log an error with all of it.
  private val MostCharacters = 200000

  private def generated(source: ColumnFoldSource): Option[ColumnFold] =
    if (source.code.length > MostCharacters || refused.contains(source.code)) None
    else {
      val made = try compiled(source) catch {
        // Code for rows is split where expressions are deep; this is not.
        case NonFatal(_) | _: StackOverflowError | _: LinkageError => None
      }
      if (made.isEmpty && refused.size < MostRefused) refused.add(source.code)
      made
    }

  private def compiled(source: ColumnFoldSource): Option[ColumnFold] = {
    val (made, stats) = CodeGenerator.compile(source.formatted)
    // Java leaves a larger method uncompiled for good.
    if (stats.maxMethodCodeSize > CodeGenerator.DEFAULT_JVM_HUGE_METHOD_LIMIT) None
    else Some(made.generate(source.references).asInstanceOf[ColumnFold])
  }
}

/** The Java source of a fold of columns. */
private final class ColumnFoldSource(fold: AggregateFold) {
  private val ctx = new CodegenContext
  private val width = fold.state.length
  private val update = BindReferences.bindReferences(fold.update, AttributeSeq(fold.state ++ fold.in))
  private val read = update.flatMap(_.collect { case b: BoundReference => b }).distinctBy(_.ordinal)

  /** A variable of the generated method, the code that declares it, and the column that it needs. */
  private case class Variable(of: BoundReference) {
    private val isState = of.ordinal < width
    val column: Option[(Int, String)] = if (isState) None else {
      // A field of its own: an element of an array would be loaded at each access.
      val name = ctx.addMutableState(classOf[ColumnVector].getName, "column", forceInline = true)
      Some((of.ordinal - width, name))
    }
    private val (isNull, value) = (ctx.freshName("isNull"), ctx.freshName("value"))
    private val (isNullAt, get) = column match {
      case Some((_, name)) =>
        (s"$name.isNullAt(position)", CodeGenerator.getValueFromVector(name, of.dataType, "position"))
      case None =>
        val at = of.ordinal.toString
        (s"state.isNullAt($at)", CodeGenerator.getValue("state", of.dataType, at))
    }
    val declared: String = s"""
      boolean $isNull = $isNullAt;
      ${CodeGenerator.javaType(of.dataType)} $value =
        $isNull ? ${CodeGenerator.defaultValue(of.dataType)} : ($get);"""
    val code: ExprCode = ExprCode(JavaCode.isNullVariable(isNull), JavaCode.variable(value, of.dataType))
  }

  private val variables = read.map(Variable)
  ctx.INPUT_ROW = null
  ctx.currentVars = {
    val known = variables.map(v => v.of.ordinal -> v.code).toMap
    Seq.tabulate(width + fold.in.length)(known.getOrElse(_, null))
  }
  private val shared =
    if (SQLConf.get.subexpressionEliminationEnabled)
      ctx.subexpressionEliminationForWholeStageCodegen(update).states
    else Map.empty[ExpressionEquals, SubExprEliminationState]
  private val computed = ctx.withSubExprEliminationExprs(shared)(update.map(_.genCode(ctx)))
  private val sharedCode = ctx.evaluateSubExprEliminationState(shared.values)

  // All fields are computed before any is set: each may read the others, and one may throw.
  private val set = update.indices.map { i =>
    CodeGenerator.updateColumn("state", update(i).dataType, i, computed(i), update(i).nullable)
  }

  def references: Array[Any] = ctx.references.toArray

  def formatted: CodeAndComment =
    CodeFormatter.stripOverlappingComments(new CodeAndComment(code, ctx.getPlaceHolderToComments()))

  val code: String = s"""
    public java.lang.Object generate(Object[] references) {
      return new SpecificColumnFold(references);
    }

    class SpecificColumnFold extends ${classOf[ColumnFold].getName} {
      private Object[] references;
      ${ctx.declareMutableStates()}

      public SpecificColumnFold(Object[] references) {
        this.references = references;
        ${ctx.initMutableStates()}
      }

      public void begin(${classOf[ColumnVector].getName}[] columns) {
        ${variables.flatMap(_.column).map { case (at, name) => s"$name = columns[$at];" }.mkString("\n")}
      }

      public void update(UnsafeRow state, int position) {
        ${variables.map(_.declared).mkString("\n")}
        $sharedCode
        ${computed.map(_.code.toString).mkString("\n")}
        ${set.mkString("\n")}
      }

      ${ctx.declareAddedFunctions()}
    }
  """
}
