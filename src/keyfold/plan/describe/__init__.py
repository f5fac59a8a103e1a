"""An app as text, JSON and Mermaid."""
