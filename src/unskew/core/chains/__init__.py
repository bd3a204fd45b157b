"""Chained operators: keys that occur together are planned together, so that records stay on their server.

In reading order:

- `pairs`: how often a key of one operator and a key of the next meet in a record.
- `servers`: which server each slot of each operator is on.
- `graph`: the keys of a chain and the pairs between them as a weighted graph.
- `metis`: the graph divided among the servers by METIS, and the parts numbered so that most state stays.
- `matching`: the best numbering of the parts.
- `refinement`: single keys moved, to relieve full servers and to gain locality.
- `operator_table`: from the servers of one operator's keys to its routing table.
- `tables`: the tables of all operators and what they achieve together.
- `locality`: the planner, which puts all of this together.
- `plan`: a plan with the measurements it was made from, to print and to save.
"""
