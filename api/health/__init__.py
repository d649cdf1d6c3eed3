"""How the service is: liveness, readiness, metrics and traces."""
