"""The health of the service: liveness, readiness, metrics and traces."""
