"""Results as tables, JSON, CSV and Markdown."""
