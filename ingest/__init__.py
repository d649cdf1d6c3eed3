"""Gets knowledge in: sources, parsers, and the pipeline between them and the record."""
