"""Reports of an analysis: terminal, HTML, JSON, Markdown, CSV. No statistics."""
