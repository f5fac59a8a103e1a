"""Rules of the kernel's Scala sources, checked without a JVM."""
