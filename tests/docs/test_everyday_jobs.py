from typing import Any

from benchmarks.harm_docs import PAGE, rendered, table


def job(plain: float, unskew: float, *faults: str) -> dict[str, Any]:
    versions = {
        name: {"seconds": seconds, "exchanges": 1} for name, seconds in (("plain", plain), ("unskew", unskew))
    }
    return {"family": "join", **versions, "faults": list(faults)}


def test_the_page_shows_the_committed_record() -> None:
    assert PAGE.read_text("utf-8") == rendered(), "run `make docs-harm`"


def test_wins_faults_and_errors_are_named() -> None:
    failed = {"family": "join", "error": "ValueError: no", "faults": ["raises"]}
    jobs = {"join: a": job(2.0, 1.0), "join: b": job(1.0, 2.0, "time"), "join: c": failed}
    text = table({"classic": {"jobs": jobs}})
    assert "| join | 3 | 1.25 × (0.50 to 2.00) | 0 | 2 | 1 |" in text
    assert "| join: a | classic | 2.00 s | 1.00 s | 0.50 × |" in text
    assert "| join: b | classic | time |" in text
    assert "| join: c | classic | ValueError: no |" in text
