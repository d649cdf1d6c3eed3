"""The HTTP server process: gunicorn, TLS, slow clients and supervised children.

Entry point: :func:`api.server.http_server.serve`.
"""
