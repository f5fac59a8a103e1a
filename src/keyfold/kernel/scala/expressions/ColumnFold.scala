package org.apache.spark.sql.keyfold.expressions

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.vectorized.ColumnVector

/**
 * Folds positions of columns into states of fixed width, by generated code that reads the columns and the
 * state themselves. Where rows are folded, each value is asked of a row that asks a column.
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
    if (fold.flat && generates && fold.update.forall(supported)) Try(generated(fold)).toOption.flatten
    else None

  private def generates: Boolean =
    SQLConf.get.getConf(SQLConf.CODEGEN_FACTORY_MODE) != CodegenObjectFactoryMode.NO_CODEGEN.toString

  /** A fallback asks a row; what depends on the partition has to be told which one it is. */
  private def supported(update: Expression): Boolean =
    update.deterministic && !update.exists(_.isInstanceOf[CodegenFallback])

  private def generated(fold: AggregateFold): Option[ColumnFold] = {
    val ctx = new CodegenContext
    val code = CodeFormatter.stripOverlappingComments(
      new CodeAndComment(source(fold, ctx), ctx.getPlaceHolderToComments()))
    val (made, stats) = CodeGenerator.compile(code)
    // Java leaves a larger method uncompiled for good; Spark splits the code for rows.
    if (stats.maxMethodCodeSize > CodeGenerator.DEFAULT_JVM_HUGE_METHOD_LIMIT) None
    else Some(made.generate(ctx.references.toArray).asInstanceOf[ColumnFold])
  }

  private def source(fold: AggregateFold, ctx: CodegenContext): String = {
    val width = fold.state.length
    val update = BindReferences.bindReferences(fold.update, AttributeSeq(fold.state ++ fold.in))
    val read = update.flatMap(_.collect { case b: BoundReference => b }).distinctBy(_.ordinal)
    val columns = read.map(_.ordinal - width).filter(_ >= 0).map { at =>
      at -> ctx.addMutableState(classOf[ColumnVector].getName, "column", useFreshName = true)
    }.toMap
    val variables = read.map { b =>
      val (isNull, value) = (ctx.freshName("isNull"), ctx.freshName("value"))
      val (asked, got) =
        if (b.ordinal < width) ("state", CodeGenerator.getValue("state", b.dataType, s"${b.ordinal}"))
        else {
          val column = columns(b.ordinal - width)
          (column, CodeGenerator.getValueFromVector(column, b.dataType, "position"))
        }
      val index = if (b.ordinal < width) s"${b.ordinal}" else "position"
      val java = CodeGenerator.javaType(b.dataType)
      val text = s"""
        boolean $isNull = $asked.isNullAt($index);
        $java $value = $isNull ? ${CodeGenerator.defaultValue(b.dataType)} : ($got);"""
      (b.ordinal, text, ExprCode(JavaCode.isNullVariable(isNull), JavaCode.variable(value, b.dataType)))
    }
    ctx.INPUT_ROW = null
    ctx.currentVars = Seq.tabulate(width + fold.in.length) { at =>
      variables.collectFirst { case (`at`, _, variable) => variable }.orNull
    }
    val computed = update.map(_.genCode(ctx))
    // All are computed before any is set: each may read the others, and one may throw.
    val set = update.indices.map { i =>
      CodeGenerator.updateColumn("state", update(i).dataType, i, computed(i), update(i).nullable)
    }
    s"""
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
          ${columns.map { case (at, column) => s"$column = columns[$at];" }.mkString("\n")}
        }

        public void update(UnsafeRow state, int position) {
          ${variables.map(_._2).mkString("\n")}
          ${computed.map(_.code.toString).mkString("\n")}
          ${set.mkString("\n")}
        }

        ${ctx.declareAddedFunctions()}
      }
    """
  }
}
