"""Small jobs, first as plain PySpark and then with unskew; each runs with `python -m examples.NAME`."""
