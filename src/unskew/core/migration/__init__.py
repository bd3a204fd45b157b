"""From one routing table to the next while a stream runs: whether, when, how much at once, and safely.

In reading order:

- `protocol`: who exports, who imports and which table is in force in each batch; a pure state machine.
- `transition`: the tables between two tables, for a migration that is only partly done.
- `budget`: how much of a migration is done in one batch.
- `policy`: whether a new table is worth moving state for.
- `scaling`: how many slots a stream should have.
"""
