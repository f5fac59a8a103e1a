"""The JVM's process: its launch, its temporary files, its end."""
