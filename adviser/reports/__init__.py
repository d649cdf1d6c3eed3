"""Reports: advice as one JSON document, its explanations, and how a report is checked.

:func:`adviser.reports.documents.result_document` writes the report of an advice;
:func:`adviser.reports.checking.check_report` checks one.
"""
