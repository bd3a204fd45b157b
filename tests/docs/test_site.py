"""The built site in a real browser: opened from the disk, without a server or a network, its search finds pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.report.watch.browser import CHROMIUM, Browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CHROMIUM is None:
        pytest.skip("no Chromium or Chrome is installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("page", ["index.html", "tutorials/join.html"])
def test_the_search_finds_a_recipe_without_a_network(browser: Browser, site: Path, page: str) -> None:
    browser.call("Network.enable")
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.call("Network.emulateNetworkConditions", **offline)
    browser.open((site / page).as_uri())
    browser.evaluate(
        "const query = document.querySelector('[data-md-component=search-query]');"
        "query.focus(); query.value = 'null keys';"
        "query.dispatchEvent(new Event('keyup', { bubbles: true }))"
    )
    browser.wait("document.querySelectorAll('.md-search-result__link').length > 0")
    found = browser.evaluate("[...document.querySelectorAll('.md-search-result__link')].map((a) => a.href)")
    assert any("recipes.html" in link for link in found), found


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = [
        line.strip()
        for file in (site / "index.html", site / "recipes.html", site / "tutorials" / "join.html")
        for line in file.read_text("utf-8").splitlines()
        if ('src="http' in line) or ('rel="stylesheet" href="http' in line)
    ]
    assert loaded == []
