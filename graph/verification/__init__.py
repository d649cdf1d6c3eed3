"""Compares the record with its documents; entry :func:`graph.verification.run.verify_record`."""
