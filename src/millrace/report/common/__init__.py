"""Parts that the subjects share: axes, tables, pages, figures as text, files."""
