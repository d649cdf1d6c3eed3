"""Native libraries and symbol versions that wheels need and that machines and images provide.

Entry points: :func:`ingest.native.wheels.analyze_wheel`, :mod:`ingest.native.environments`.
"""
