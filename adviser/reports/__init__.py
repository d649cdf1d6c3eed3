"""Write advice as a report, which is one JSON document; explain and check reports.

:func:`adviser.reports.documents.result_document` writes the report of an advice;
:func:`adviser.reports.checking.check_report` checks one.
"""
