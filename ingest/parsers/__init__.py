"""One module per kind of document."""
