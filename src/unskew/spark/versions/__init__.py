"""What depends on the version of Spark, and nowhere else: one function for each difference.

`running` reads the version of a session once and says what that Spark has; `placing`, `collecting`, `counting`,
`subqueries` and `grouped` do the same thing on all of them; `private` has everything that is not PySpark's public API.
"""
