"""Prints reports of ten thousand customers."""

from shop import report

orders = {f"customer {number}": number for number in range(10_000)}
for _ in range(40):
    report(orders)
