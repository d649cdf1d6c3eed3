"""Gets advice out of evidence, with no I/O of its own below the commands."""
