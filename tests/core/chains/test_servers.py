"""Chains are planned for slots wherever the scheduler put them, as well as for slots in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.correlated import synthetic_pairs
from tests.core.chains.cases import hashed, measured, weeks
from unskew.core.chains.locality import plan_chain_tables
from unskew.core.chains.servers import Servers
from unskew.core.chains.tables import ChainTables, local_shares
from unskew.core.histogram import sum_by
from unskew.core.loads import imbalance, slot_loads

WEEK, NEXT = (measured(*week) for week in weeks(2, seed=4))


def anywhere(servers: int, most: int) -> st.SearchStrategy[list[int]]:
    """The server of each slot of an operator, in any order, up to `most` slots on each."""
    counts = st.lists(st.integers(1, most), min_size=servers, max_size=servers)
    return counts.flatmap(lambda slots: st.permutations(np.repeat(range(servers), slots).tolist()))


def assert_slots_of_a_server_share_its_load(chain: ChainTables) -> None:
    for table, histogram, at in zip(chain.tables, chain.histograms, chain.server_of_slot, strict=True):
        loads = slot_loads(table, histogram)
        for server in range(chain.servers):
            own = loads[at == server]
            assert own.max() <= 1.02 * max(own.mean(), histogram.tracked.weights[0])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.permutations([0, 0, 1, 1, 2, 2]), min_size=2, max_size=2))
def test_slots_in_any_order_do_as_well_as_slots_in_order(layout: list[list[int]]) -> None:
    usual, chain = plan_chain_tables(*WEEK, 3, 2), plan_chain_tables(*WEEK, 3, server_of_slot=layout)
    assert chain.locality == usual.locality
    assert chain.imbalance == pytest.approx(usual.imbalance)
    assert chain.server_imbalance == pytest.approx(usual.server_imbalance)
    assert local_shares(chain.tables, WEEK[1], server_of_slot=layout) == pytest.approx(chain.hops)
    assert [at.tolist() for at in chain.server_of_slot] == layout


@settings(deadline=None, max_examples=30)
@given(st.lists(anywhere(3, 4), min_size=2, max_size=2))
def test_servers_have_equal_shares_regardless_of_their_slots(layout: list[list[int]]) -> None:
    chain, usual = plan_chain_tables(*WEEK, 3, server_of_slot=layout), plan_chain_tables(*WEEK, 3)
    assert [table.slots for table in chain.tables] == [len(servers) for servers in layout]
    assert chain.locality > 0.98 * usual.locality
    assert max(chain.server_imbalance) <= 1.03
    assert_slots_of_a_server_share_its_load(chain)
    for table, at in zip(chain.tables, layout, strict=True):
        # keys that do not exist yet will come to all servers, too
        buckets = np.bincount(np.array(at)[table.buckets], minlength=3)
        assert imbalance(buckets * 1.0) < 1.3


@settings(deadline=None, max_examples=20)
@given(anywhere(3, 3), anywhere(3, 3), st.sampled_from([0.0, 0.1]))
def test_later_plans_keep_state_on_the_server_that_has_its_slot(
    first: list[int], second: list[int], worth: float
) -> None:
    layout = [first, second]
    chain = plan_chain_tables(*WEEK, 3, server_of_slot=layout)
    again = plan_chain_tables(*WEEK, 3, previous=chain.tables, server_of_slot=layout)
    assert (again.chosen, again.moved) == ("kept", 0.0)
    later = plan_chain_tables(*NEXT, 3, previous=chain.tables, server_of_slot=layout, worth=worth)
    assert later.locality >= local_shares(chain.tables, NEXT[1], server_of_slot=layout)[0] - 0.01
    assert max(later.server_imbalance) <= 1.04
    assert later.moved < 0.6


def test_what_is_in_buckets_stays_on_its_server_as_well_as_with_slots_in_order() -> None:
    layout = [[2, 0, 1, 1, 0, 2], [1, 2, 0, 1, 2, 0]]
    coarse = [
        ([h.trimmed(50) for h in histograms], [hop.trimmed(100) for hop in pairs])
        for histograms, pairs in (WEEK, NEXT)
    ]
    usual, first = (
        plan_chain_tables(*coarse[0], 3, 2),
        plan_chain_tables(*coarse[0], 3, server_of_slot=layout),
    )
    in_order = plan_chain_tables(*coarse[1], 3, 2, usual.tables)
    later = plan_chain_tables(*coarse[1], 3, previous=first.tables, server_of_slot=layout)
    assert later.chosen == in_order.chosen == "refined"
    assert later.moved == pytest.approx(in_order.moved)
    assert 0.0 < later.moved < 0.2


def test_tables_are_not_kept_when_their_slots_moved_to_other_servers() -> None:
    histograms, pairs = measured(*synthetic_pairs(60, 1.0, 30_000))
    chain = plan_chain_tables(histograms, pairs, 3, 2)
    turned = [[0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 0, 0]]
    assert local_shares(chain.tables, pairs, server_of_slot=turned) == (0.0,)
    replanned = plan_chain_tables(histograms, pairs, 3, previous=chain.tables, server_of_slot=turned)
    assert replanned.locality == 1.0
    assert replanned.moved == pytest.approx(0.5, abs=0.02)  # the state of one of the two operators


def test_a_server_that_lost_all_its_slots_to_others() -> None:
    first = plan_chain_tables(*WEEK, 3, 2)
    chain = plan_chain_tables(*WEEK, 2, previous=first.tables, server_of_slot=[[0, 0, 1, 1, 0, 1]] * 2)
    assert chain.locality > first.locality - 0.05
    assert max(chain.server_imbalance) <= 1.04
    assert_slots_of_a_server_share_its_load(chain)


def test_loads_of_servers_are_those_of_their_slots() -> None:
    layout = [[1, 0, 1], [1, 0]]
    chain = plan_chain_tables(*WEEK, 2, server_of_slot=layout)
    for o, (table, at) in enumerate(zip(chain.tables, layout, strict=True)):
        on_servers = sum_by(np.array(at), slot_loads(table, chain.histograms[o]), 2)
        assert chain.server_imbalance[o] == pytest.approx(imbalance(on_servers))


def test_without_a_measurement_the_tables_have_the_slots_of_the_layout() -> None:
    histograms, pairs = WEEK
    empty = [h.trimmed(1).decayed(0.0) for h in histograms], [hop.reset() for hop in pairs]
    chain = plan_chain_tables(*empty, 2, server_of_slot=[[0, 1, 0], [0, 1]])
    assert [table.slots for table in chain.tables] == [3, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"server_of_slot": [[0, 1], [0, 0]]},
            "server 1 has no slot of operator 1: plan for servers that have",
        ),
        ({"server_of_slot": [[0, 1], []]}, "operator 1 is one whole number per slot"),
        ({"server_of_slot": [[0, 2], [0, 1]]}, r"operator 0 is on server 2, but servers are 0\.\.1"),
        ({"server_of_slot": [[0, 1], [-1, 1]]}, "operator 1 is on server -1"),
        ({"server_of_slot": [[0.0, 1.0], [0, 1]]}, "operator 0 is one whole number per slot"),
        ({"server_of_slot": [[[0, 1]], [0, 1]]}, "operator 0 is one whole number per slot"),
        ({"server_of_slot": [[0, 1]]}, "server_of_slot is for 1 operators, but the chain has 2"),
        ({"server_of_slot": [[0, 1] * 300] * 2}, "600 slots but only 512 buckets"),
        (
            {"server_of_slot": [[0, 1]] * 2, "servers": 2.0},
            "servers is a whole number of at least 1, not 2.0",
        ),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    histograms, pairs = measured([1, 2], [3, 4])
    good: dict[str, Any] = {"histograms": histograms, "pairs": pairs, "servers": 2}
    with pytest.raises(ValueError, match=message):
        plan_chain_tables(**(good | change))


def test_looking_up_the_server_of_a_slot() -> None:
    servers = Servers.of(2, [[1, 0, 1]])
    assert servers.look_up(0, np.array([0, 1, 2, 3, -1], np.int32)).tolist() == [1, 0, 1, -1, -1]
    assert servers.fit(hashed(3, 1))
    assert not servers.fit(hashed(2, 1))
