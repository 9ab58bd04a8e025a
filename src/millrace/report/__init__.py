"""From an analysis to something to read: terminal, HTML, JSON, Markdown, CSV. No statistics."""
