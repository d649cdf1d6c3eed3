"""The statistics of noisy measurements, as small pure functions with sources."""
