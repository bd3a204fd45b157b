"""The sketches as users reach them: `unskew.sketches`."""

import unskew


def test_every_sketch_prints_in_one_line() -> None:
    keys = ["a"] * 30 + list("bcdefghijk")
    lossy = unskew.sketches.LossyCounter(epsilon=0.1)
    sliding = unskew.sketches.SlidingLossyCounter(epsilon=0.1, window=1000)
    saving = unskew.sketches.SpaceSaving(capacity=3)
    for sketch in (lossy, sliding, saving):
        sketch.update_keys(keys)
    assert repr(lossy) == "LossyCounter(epsilon 0.1, 1 keys tracked, total 40)"
    assert repr(sliding) == "SlidingLossyCounter(epsilon 0.1, window 1000, 1 keys tracked, total 40)"
    assert repr(saving) == "SpaceSaving(capacity 3, 3 keys tracked, total 40)"
    assert repr(lossy.items()) == "Tracked(1 keys, weight 30 to 30)"


def test_the_module_is_part_of_the_public_api() -> None:
    assert "sketches" in unskew.__all__
    assert sorted(unskew.sketches.__all__) == [
        "LossyCounter",
        "SlidingLossyCounter",
        "SpaceSaving",
        "Tracked",
    ]
