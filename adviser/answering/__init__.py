"""Advice with the stores: read knowledge for a request, store reports and read them again.

``knowledge.Knowledge.for_request`` is the one door to knowledge; ``answers.store`` stores a report.
"""
