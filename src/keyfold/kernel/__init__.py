"""The Scala kernel: its sources, and how they become a jar."""
