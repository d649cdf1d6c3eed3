"""Proof that the record is what its documents say; :func:`graph.verification.run.verify_record`."""
