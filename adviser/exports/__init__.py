"""Exports of the record as Parquet files.

``parquet.export_parquet`` writes the tables of ``tables.TABLES`` into a new folder.
"""
