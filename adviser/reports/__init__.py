"""Answers as documents and tables: what is advised, why, and how that can be checked."""
