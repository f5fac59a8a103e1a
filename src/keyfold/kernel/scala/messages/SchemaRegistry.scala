package org.apache.spark.sql.keyfold.messages

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets
import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.avro.Schema

import org.apache.spark.sql.keyfold.expressions.KernelError

/**
 * A Schema Registry, asked for schemas by the ids that messages have. Tasks ask it, since only they see the
 * ids; a process asks once per id, as schemas never change. An id that the registry does not know is asked
 * for again by the next task: it may be registered by then.
 */
private class SchemaRegistry(url: String) {
  private val known = new ConcurrentHashMap[Integer, Schema]
  private val user = Option(URI.create(url).getUserInfo)
  private val base = user.fold(url)(u => url.replaceFirst(java.util.regex.Pattern.quote(s"$u@"), ""))

  /** The schema of an id; None if the registry has none. */
  def schema(id: Int): Option[Schema] = Option(known.get(id)).orElse {
    val found = get(s"/schemas/ids/$id").map(parsed(_, new Schema.Parser))
    found.foreach(known.put(id, _))
    found
  }

  /** With the schemas that it refers to, which must be parsed before it. */
  private def parsed(found: JsonNode, parser: Schema.Parser): Schema = {
    Option(found.get("schemaType")).map(_.asText).filter(_ != "AVRO").foreach { kind =>
      throw BadMessage(s"the message's schema is ${kind.toLowerCase}, and not Avro")
    }
    Option(found.get("references")).toSeq.flatMap(_.asScala).foreach { r =>
      val subject = java.net.URLEncoder.encode(r.get("subject").asText, StandardCharsets.UTF_8)
      get(s"/subjects/$subject/versions/${r.get("version").asInt}").foreach(parsed(_, parser))
    }
    parser.parse(found.get("schema").asText)
  }

  private def get(path: String): Option[JsonNode] = {
    val request = HttpRequest.newBuilder(URI.create(base + path)).timeout(SchemaRegistry.Timeout)
    user.foreach { u =>
      val encoded = java.util.Base64.getEncoder.encodeToString(u.getBytes(StandardCharsets.UTF_8))
      request.header("Authorization", s"Basic $encoded")
    }
    val response = attempt(request.build(), SchemaRegistry.Attempts)
    response.statusCode match {
      case 200 => Some(SchemaRegistry.mapper.readTree(response.body))
      case 404 => None
      case other => throw failed(s"the Schema Registry at $base answers $path with status $other")
    }
  }

  /** An answer; a registry that is being restarted is asked again. */
  private def attempt(request: HttpRequest, left: Int): HttpResponse[String] =
    try {
      val answer = SchemaRegistry.client.send(request, HttpResponse.BodyHandlers.ofString())
      if (answer.statusCode < 500 || left == 1) answer else again(request, left)
    } catch {
      case e: java.io.IOException if left == 1 =>
        throw failed(s"the Schema Registry at $base can't be reached: $e", e)
      case _: java.io.IOException => again(request, left)
    }

  private def failed(problem: String, cause: Throwable = null) =
    KernelError(KernelError.Registry, problem, Map("problem" -> problem), cause)

  private def again(request: HttpRequest, left: Int) = {
    Thread.sleep(SchemaRegistry.PauseMs)
    attempt(request, left - 1)
  }
}

private object SchemaRegistry {
  private val Attempts = 10
  private val PauseMs = 500L
  private val Timeout = Duration.ofSeconds(10)
  private lazy val client = HttpClient.newBuilder().connectTimeout(Timeout).build()
  private lazy val mapper = new ObjectMapper
  private val byUrl = new ConcurrentHashMap[String, SchemaRegistry]

  /** One per process and URL. */
  def apply(url: String): SchemaRegistry = byUrl.computeIfAbsent(url, new SchemaRegistry(_))

  def parsed(schema: String): Schema = new Schema.Parser().parse(schema)
}
