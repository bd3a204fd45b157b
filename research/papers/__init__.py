"""The papers, reproduced: every figure and table as an experiment, ours beside theirs.

To add a paper: one module (or a few) with its experiments, a `Paper` that lists **every** figure and table in
the paper's order, as an `Experiment` or as an `Omitted` with one line saying why, and its place in
`research.papers.registry.PAPERS`. An experiment consists of:

    Experiment(
        name="dkg-9",                                  # <paper>-<figure>, <paper>-table-<number>
        title="σ as a function of the training set's size",
        parameters={"runs": 10_000, …},                # the paper's
        quick={"runs": 50},                            # what differs with --quick
        compute=learning,                              # Run -> JSON data: dict, list, str, finite number, None
        claims=(printed("…", 60.7, get, within=1.0), shape("…", fact)),
        draw=draw_learning,                            # (Record, matplotlib Figure) -> None; None for a table
    )

`compute(run)` depends only on `run.parameters` and `run.seed`; it reads no clock. Independent points go through
`run.each([{…}, …], measure)`, which calls `measure(**point)` for each, shows progress, and saves each result, so
that a stopped run continues from there. A `measure` that times something returns `Timed(figures, seconds)`: times
are stored apart from the figures, in `record.times`. An experiment with `needs_spark=True` gets a session as
`run.spark`, or as `run.spark_on(64)` one with 64 threads, for functions that wait (`research.papers.waiting_jobs`,
`research.papers.live_streams`): these have the wall time of a real job or stream, and fail on a wrong answer.

A claim is one statement of the paper, checked against the record: `printed` for a number, `shape` for an ordering
or a trend. If all claims hold, the figure agrees; if only numbers fail, it agrees in shape; if a shape fails, it
differs. A claim's `why` is the reason that we found, and is printed where the claim does not hold.
"""
