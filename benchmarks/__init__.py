"""Measurements of the product, as ratios against a named reference of the same run."""
