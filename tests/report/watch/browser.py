"""A headless Chromium, driven through its DevTools pipe: JSON messages with a null byte after each."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)


class Browser:
    """One page; `problems` are the errors and warnings of its console, exceptions and refused requests."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            # nothing is looked up or fetched that a test did not ask for
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        # Chromium reads commands from file 3 and writes to file 4
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium", CHROMIUM, *options],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._buffer, self._session = 0, b"", ""
        self._scripts: set[str] = set()
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = ""
        self.call("Browser.close")
        os.close(self._out)
        self._process.wait(20)
        os.close(self._in)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            response = self._read()
            if response.get("id") == self._number:
                assert "error" not in response, response
                return dict(response["result"])
            self._listen(response)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> float:
        """Wait until an expression is true; returns how long that took."""
        started = time.monotonic()
        while not self.evaluate(condition):
            assert time.monotonic() - started < seconds, f"not true after {seconds} s: {condition}"
            time.sleep(0.05)
        return time.monotonic() - started

    def before_every_page(self, script: str) -> None:
        """Run a script in each page that is opened from now on, before its own; once, however often this is called."""
        if script not in self._scripts:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=script)
            self._scripts.add(script)

    def busy(self) -> float:
        """Seconds of a processor that the page's main thread has used: what others take from it does not count."""
        self.call("Performance.enable", timeDomain="threadTicks")
        metrics = {
            metric["name"]: metric["value"] for metric in self.call("Performance.getMetrics")["metrics"]
        }
        return float(metrics["TaskDuration"])

    def look(self, *, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Take a size and a colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """The window, or the whole page, as a PNG."""
        screenshot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(screenshot["data"])

    def photograph(self, clip: dict[str, float]) -> bytes:
        """A part of the page, which may be out of sight, as a PNG."""
        screenshot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(screenshot["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 60)
            assert ready, "Chromium says nothing"
            data = os.read(self._in, 1 << 20)
            assert data, "Chromium has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def _listen(self, event: dict[str, Any]) -> None:
        heard: dict[str, Callable[[dict[str, Any]], str | None]] = {
            "Runtime.exceptionThrown": lambda p: json.dumps(p["exceptionDetails"]),
            "Runtime.consoleAPICalled": lambda p: (
                json.dumps(p["args"]) if p["type"] in ("error", "warning", "assert") else None
            ),
            "Log.entryAdded": lambda p: (
                json.dumps(p["entry"]) if p["entry"]["level"] in ("error", "warning") else None
            ),
        }
        problem = heard.get(event.get("method", ""), lambda _: None)(event.get("params", {}))
        if problem is not None:
            self.problems.append(problem)
