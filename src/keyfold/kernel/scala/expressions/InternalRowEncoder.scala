package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.{AgnosticEncoder, ExpressionEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/** The row that is being read, as it is: no copy, no boxes. */
case class WholeRow(dataType: DataType = ObjectType(classOf[InternalRow])) extends LeafExpression {
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = row
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    ev.copy(
      code = code"final InternalRow ${ev.value} = (InternalRow) ${ctx.INPUT_ROW};", isNull = FalseLiteral)
}

/** A value handed on under another data type, unchanged. */
case class Retyped(child: Expression, dataType: DataType) extends UnaryExpression {
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val inner = child.genCode(ctx)
    val java = CodeGenerator.javaType(dataType)
    ev.copy(
      code = inner.code + code"final $java ${ev.value} = ($java) ${inner.value};", isNull = FalseLiteral)
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}

object InternalRowEncoder {
  /**
   * An encoder that keeps rows in Spark's internal form, so that state is stored by column and nothing is
   * converted.
   */
  def encoder(schema: StructType): ExpressionEncoder[InternalRow] = {
    val struct = Retyped(BoundReference(0, ObjectType(classOf[InternalRow]), nullable = false), schema)
    val fields = schema.fields.toSeq.zipWithIndex.flatMap { case (f, i) =>
      Seq(Literal(f.name), GetStructField(struct, i, Some(f.name)))
    }
    new ExpressionEncoder[InternalRow](
      RowEncoder.encoderFor(schema).asInstanceOf[AgnosticEncoder[InternalRow]],
      CreateNamedStruct(fields),
      WholeRow())
  }
}
