"""Advice with the stores: read knowledge for a request, store reports and read them again.

``answers.answer`` makes a report for a request, and ``answers.store`` stores it.
"""
