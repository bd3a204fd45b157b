"""The pure heart of unskew: numpy and Arrow, no Spark.

Everything passes through three values: a `Histogram` is measured, a planner turns it into a
`RoutingTable`, and the Spark layer turns the table into a column.
"""
