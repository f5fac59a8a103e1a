package org.apache.spark.sql.keyfold.messages

import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, CodingErrorAction, StandardCharsets}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.unsafe.types.UTF8String

/** The bytes of a message as text. */
object MessageText {
  val NotUtf8: BadMessage = BadMessage("the message is not valid UTF-8")

  def strict(value: Array[Byte]): Option[String] = try {
    val decoder = StandardCharsets.UTF_8.newDecoder()
      .onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
    Some(decoder.decode(ByteBuffer.wrap(value)).toString)
  } catch { case _: CharacterCodingException => None }

  /** What a rejected message is shown as: its text, or base64 where it is none; at most `Longest` bytes. */
  def shown(value: Array[Byte]): String =
    if (value == null) ""
    else if (value.length > Longest) s"${shown(value.take(Longest))}... (${value.length} bytes)"
    else strict(value).filterNot(_.exists(c => c < ' ' && c != '\n' && c != '\r' && c != '\t'))
      .getOrElse(java.util.Base64.getEncoder.encodeToString(value))

  /** A rejected row travels to one task, and is kept in the log. */
  val Longest: Int = 64 * 1024
}

/** UTF-8 text, in one column. */
private object TextDecoder extends ValueFormat with MessageDecoder {
  override def decoder(declared: MessageFormat): MessageDecoder = this

  override def decode(value: Array[Byte]): InternalRow = {
    val text = UTF8String.fromBytes(value)
    if (text.isValid) InternalRow(text) else throw MessageText.NotUtf8
  }
}

/** Bytes, in one column. */
private object RawDecoder extends ValueFormat with MessageDecoder {
  override def decoder(declared: MessageFormat): MessageDecoder = this
  override def decode(value: Array[Byte]): InternalRow = InternalRow(value)
}
