"""Shared parts of all routes: errors, paging, bodies, schema fields, and cached answers."""
