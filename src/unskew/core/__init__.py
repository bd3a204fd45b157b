"""The algorithms of unskew, on numpy and Arrow: importing them never imports Spark.

Everything passes through three values: a `Histogram` is measured, a planner turns it into a `RoutingTable`, and the
Spark layer turns the table into a column.
"""
