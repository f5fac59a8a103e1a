package org.apache.spark.sql.execution.keyfold.io

import org.apache.hadoop.fs.Path

/** The names of files in a stream's log. */
class SourceDirectorySuite extends munit.FunSuite {
  private val names = new FileNames("orders", new Path("file:/data/in"))

  test("a file is named by its path below the directory, and found by it wherever the directory is") {
    val file = new Path("file:/data/in/day=1/a b.json")
    assertEquals(names.of(file), Some("orders:/day=1/a b.json"))
    assertEquals(names.file("orders:/day=1/a b.json"), file)
    val moved = new FileNames("orders", new Path("hdfs://host/other"))
    assertEquals(moved.file("orders:/day=1/a b.json"), new Path("hdfs://host/other/day=1/a b.json"))
  }

  test("a stream may be renamed: names are compared without it") {
    assertEquals(names.file("formerly:/a.json"), new Path("file:/data/in/a.json"))
    assertEquals(SourceDirectory.withoutStream("formerly:/a:b.json"), "/a:b.json")
  }

  test("a file that was declared itself has a name beside the directory") {
    val one = new FileNames("orders", new Path("file:/data/orders.json"))
    assertEquals(one.of(new Path("file:/data/orders.json")), Some("orders:./orders.json"))
    assertEquals(one.file("orders:./orders.json"), new Path("file:/data/orders.json"))
  }

  test("a file of another directory has no name") {
    assertEquals(names.of(new Path("file:/data/inner/a.json")), None)
    assertEquals(names.of(new Path("file:/elsewhere/a.json")), None)
  }

  test("a root directory and characters that URIs encode") {
    val root = new FileNames("s", new Path("file:/"))
    assertEquals(root.of(new Path("file:/a.json")), Some("s:/a.json"))
    assertEquals(root.file("s:/a.json"), new Path("file:/a.json"))
    assertEquals(names.file(names.of(new Path("file:/data/in/100%#?.json")).get).getName, "100%#?.json")
  }

  test("directories named column=value fill columns") {
    import SourceDirectory.partitionColumns
    assertEquals(partitionColumns("/day=1/x/at=a%3Ab/f=g.json"), Seq("day" -> "1", "at" -> "a%3Ab"))
    assertEquals(partitionColumns("/a%20b=1=2/f.json"), Seq("a b" -> "1=2"))
    assertEquals(partitionColumns("/=1/f.json"), Nil)
    val file = new Path("file:/data/in/day=1/f.json")
    assertEquals(partitionColumns(file, "file:/data/in"), Seq("day" -> "1"))
  }
}
