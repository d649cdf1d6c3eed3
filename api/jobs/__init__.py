"""Work that outlives a request: a queue in PostgreSQL, and what its workers do."""
