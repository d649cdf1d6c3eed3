"""Readers of result files, one module for each benchmark system."""
