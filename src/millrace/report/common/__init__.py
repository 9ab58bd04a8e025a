"""What the subjects share: axes, tables, pages, figures as text, files."""
