package org.apache.spark.sql.keyfold.rows

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.RowError
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.SparkException

/** Writes down why a row was set aside and what it was. */
class SideOutput(struct: Expression, input: Seq[Attribute], keep: Boolean, zone: String, stream: Option[String]) {
  def this(columns: Seq[Attribute], input: Seq[Attribute], keep: Boolean, zone: String, stream: Option[String]) =
    this(CreateNamedStruct(columns.flatMap(c => Seq(Literal(c.name), c))), input, keep, zone, stream)

  private def json(zone: String, options: (String, String)*) =
    UnsafeProjection.create(Seq(StructsToJson(Map("ignoreNullFields" -> "false") ++ options, struct, Some(zone)).replacement), input)
  private lazy val asJson = json(zone)
  // A late row may be read again and must then be the same; Spark's own format ends at milliseconds.
  private lazy val exactly = json("UTC", SideOutput.exact.toSeq: _*)

  def text(row: InternalRow): String = asJson(row).getString(0)

  def of(row: InternalRow, error: RowError): UTF8String = of(RowError.reason(error), text(row))

  def of(reason: String, raw: String): UTF8String = of(reason, raw, inFile())

  /** The file that the row is read from, if that is known here. */
  protected def inFile(): Seq[(String, Any)] = Nil

  protected def of(reason: String, raw: String, place: Seq[(String, Any)]): UTF8String = {
    // One of Spark's own: a driver may not have the kernel's classes where it reads a task's failure.
    if (!keep) {
      val where = place.map { case ("cause", why) => why; case (what, value) => s"$what $value" }.mkString(", ")
      throw new SparkException(s"[KEYFOLD_BAD_ROW] $reason${if (where.isEmpty) "" else s" ($where)"}; row: $raw")
    }
    val node = SideOutput.mapper.createObjectNode().put("reason", reason).put("raw", raw)
    place.foreach { case (what, value) => node.putPOJO(what, value) }
    stream.foreach(node.put("stream", _))
    UTF8String.fromString(node.toString)
  }

  /** A row that came after its windows were closed, with `missed` of them; `last` is when the newest of those ended. */
  def late(row: InternalRow, at: Long, watermark: Long, missed: Long, windows: Seq[(Long, Long)], last: Long): UTF8String = {
    val node = SideOutput.mapper.createObjectNode()
    val late = node.putObject("late").put("time_us", at).put("missed", missed).put("last_us", last)
    if (watermark == LatenessCheck.Unknown) late.putNull("watermark_ms") else late.put("watermark_ms", Math.floorDiv(watermark, 1000L))
    val listed = late.putArray("windows")
    windows.foreach { case (from, to) => listed.addArray().add(from).add(to) }
    val all = if (missed == 1) "its window is" else s"$missed of its windows are"
    val reason = if (watermark == LatenessCheck.Unknown) "older than what is kept of its key"
      else if (missed == 0) s"older than what can still be waited for, the watermark is ${LatenessCheck.text(watermark)}"
      else s"$all closed since ${LatenessCheck.text(last)}, the watermark is ${LatenessCheck.text(watermark)}"
    node.put("reason", reason).put("raw", exactly(row).getString(0))
    stream.foreach(node.put("stream", _))
    UTF8String.fromString(node.toString)
  }

  /** A late row that is read again, with the watermark that it was too late for. */
  def again(row: InternalRow, at: Long, watermark: Long): UTF8String = {
    val node = SideOutput.mapper.createObjectNode().put("replay", watermark).put("time_us", at).put("raw", exactly(row).getString(0))
    stream.foreach(node.put("stream", _))
    UTF8String.fromString(node.toString)
  }
}

object SideOutput {
  private[keyfold] val mapper = new ObjectMapper()
  /** How a late row's times are written, and read when it is replayed. */
  val exact: Map[String, String] = Map("timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")

  /** What the row was, of a text made here. */
  def raw(text: UTF8String): String = mapper.readTree(text.toString).get("raw").asText

  /** The watermark that a replayed row was too late for; None for a row that isn't replayed. */
  def replayed(text: UTF8String): Option[Long] = Option(mapper.readTree(text.toString).get("replay")).map(_.asLong)

  /** A replayed row whose windows are no longer kept is a late row again. */
  def gone(text: UTF8String, windows: Seq[(Long, Long)]): UTF8String = {
    val node = mapper.readTree(text.toString).asInstanceOf[ObjectNode]
    val late = node.putObject("late").put("time_us", node.remove("time_us").asLong).put("missed", windows.length).put("last_us", windows.map(_._2).max).put("watermark_ms", Math.floorDiv(node.remove("replay").asLong, 1000L))
    val listed = late.putArray("windows")
    windows.take(LatenessCheck.Listed).foreach { case (from, to) => listed.addArray().add(from).add(to) }
    UTF8String.fromString(node.put("reason", "replayed after its windows were no longer kept").toString)
  }
}
