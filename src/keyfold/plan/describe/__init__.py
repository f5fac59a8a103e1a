"""Describes an app as text, JSON or a Mermaid diagram."""
