package org.apache.spark.sql.keyfold.rows.parsing

/**
 * Where rows come from: the stream, if they are of one stream, the format and options by which their texts
 * are parsed (none where they have no texts), and whether they are read from files.
 */
case class RowOrigin(
    stream: Option[String], format: Option[TextFormat], options: Map[String, String], files: Boolean)
