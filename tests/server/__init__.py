"""Tests of the HTTP server: a real one on a port of its own, over a real home, without a JVM."""
