"""Small jobs in plain PySpark and with unskew; each runs with `python -m examples.NAME`."""
