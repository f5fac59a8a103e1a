package org.apache.spark.sql.keyfold.api

import com.fasterxml.jackson.databind.ObjectMapper

/** Values that go back to Python as one JSON document. */
object KernelJson { val mapper = new ObjectMapper() }
