"""Take the screenshots of the docs again: `make screenshots`, or `python -m scripts.screenshots watch` for that page.

Runs a skewed job and the same job with unskew on a local Spark, and photographs Spark's own web UI in a headless
Chromium; then the page of `unskew watch` on a stream whose hot keys change. Chromium: `apt-get install chromium`.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from examples.local import stream_of
from tests.report.watch.browser import CHROMIUM, Browser
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.server import WatchServer

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
CORES = 8
CLICKS = 240_000
USERS = 3000
BATCHES = 40
SECONDS_PER_CLICK = 120e-6
COLOURS = 64
"""Of a screenshot: text and bars need no more, and the file is a third as large."""


def score(rows: pd.DataFrame) -> pd.DataFrame:
    """Wait for something outside, as a model server or a crawl makes one wait, in proportion to the rows."""
    time.sleep(len(rows) * SECONDS_PER_CLICK)
    return pd.DataFrame({"user": rows["user"].head(1), "score": rows["amount"].mean()})


def clicks(spark: SparkSession) -> DataFrame:
    """Clicks of many users, of whom three busy ones happen to share a hash partition."""
    users = spark.range(USERS).select(F.concat(F.lit("user-"), "id").alias("user"))
    partition = F.pmod(F.hash("user"), F.lit(CORES))
    busy = [row.user for row in users.where(partition == 3).orderBy("user").limit(3).collect()]
    share = F.col("id") % 100
    user = F.concat(F.lit("user-"), F.col("id") * 7919 % USERS)
    for place, name in enumerate(busy):
        user = F.when((share >= 12 * place) & (share < 12 * place + 12), F.lit(name)).otherwise(user)
    return spark.range(0, CLICKS, 1, CORES).select(user.alias("user"), F.rand(seed=2).alias("amount"))


def run(df: DataFrame) -> None:
    """Compute a DataFrame and keep nothing."""
    df.write.format("noop").mode("overwrite").save()


class Camera:
    """Takes pictures of parts of a page."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def take(self, name: str, top: str, bottom: str | None = None, *, height: int = 0) -> None:
        """A picture from the top of one element to the end of another, as a small PNG."""
        missing = f"document.querySelector({top!r}) === null"
        if self.browser.evaluate(missing):
            ids = self.browser.evaluate(
                "[...document.querySelectorAll('[id]')].map((node) => node.id).join(' ')"
            )
            raise LookupError(f"{self.browser.evaluate('location.href')} has no {top}, only {ids}")
        self.browser.evaluate(_HIDE)
        script = f"(({_BOX}))({top!r}, {(bottom or top)!r})"
        x, y, width, tall = self.browser.evaluate(script)
        clip = {"x": x, "y": y, "width": width, "height": min(tall, height) if height else tall, "scale": 1}
        self.save(name, self.browser.photograph(clip))

    @staticmethod
    def save(name: str, png: bytes) -> None:
        """Write a PNG with few colours."""
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        picture = picture.quantize(COLOURS, dither=Image.Dither.NONE)
        picture.save(IMAGES / name, optimize=True)
        print(f"docs/images/{name}: {(IMAGES / name).stat().st_size / 1000:.0f} kB")


_HIDE = """for (const node of document.querySelectorAll('body *')) {
  if (getComputedStyle(node).position === 'fixed') node.style.display = 'none';
}"""
_BOX = """(top, bottom) => {
  const first = document.querySelector(top).getBoundingClientRect();
  const last = document.querySelector(bottom).getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  return [0, Math.max(0, first.top + scrollY - 2), width, last.bottom - first.top + 10];
}"""


@contextmanager
def driver() -> Iterator[SparkSession]:
    """A local Spark whose UI shows nothing of this machine."""
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("scores of users")
    settings = {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_HOSTNAME="localhost")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


def stages(spark: SparkSession, camera: Camera) -> None:
    """Spark's UI of the job before and after."""
    web = (spark.sparkContext.uiWebUrl or "").replace("localhost", "127.0.0.1")
    df = clicks(spark).cache()
    schema = "user string, score double"
    run(df.limit(100).groupBy("user").applyInPandas(score, schema))  # starts the Python workers
    plain = df.groupBy("user").applyInPandas(score, schema)
    job = threading.Thread(target=run, args=(plain,))
    job.start()
    camera.browser.look(width=1100, height=900)
    wait_for(lambda: last_task_runs(spark))
    camera.browser.open(f"{web}/stages/")
    camera.take("ui-stages.png", "#activeStage-table", height=150)
    job.join()
    stage(camera, web, "ui-before", number_of_last_stage(spark))
    query(camera, web)
    run(unskew.groupBy(df, "user", slots=CORES).applyInPandas(score, schema))
    stage(camera, web, "ui-after", number_of_last_stage(spark))


def stage(camera: Camera, web: str, name: str, number: int) -> None:
    """The page of one stage: how its tasks took turns, and the summary of their metrics."""
    browser = camera.browser
    browser.open(f"{web}/stages/stage/?id={number}&attempt=0")
    browser.wait("document.querySelector('#summary-metrics-table tbody tr') !== null")
    browser.evaluate("document.querySelector('.expand-task-assignment-timeline').click()")
    browser.wait(
        "document.querySelector('#task-assignment-timeline .vis-item, #task-assignment-timeline .item') !== null"
    )
    time.sleep(1)  # the timeline moves into place
    camera.take(f"{name}-tasks.png", "#task-assignment-timeline")
    browser.evaluate("document.querySelector('.expand-task-assignment-timeline').click()")
    camera.take(f"{name}-metrics.png", "#summary-metrics-table")


def query(camera: Camera, web: str) -> None:
    """The plan of the last query, whose Exchange names the key."""
    browser = camera.browser
    browser.open(f"{web}/SQL/")
    links = "[...document.querySelectorAll('a[href*=\"execution/?id=\"]')]"
    browser.wait(f"{links}.length > 0")
    last = browser.evaluate(f"Math.max(...{links}.map((a) => Number(a.href.match(/id=([0-9]+)/)[1])))")
    browser.open(f"{web}/SQL/execution/?id={int(last)}")
    browser.wait("document.querySelector('#plan-viz-graph svg') !== null")
    camera.take("ui-query.png", "#plan-viz-graph svg")


def stream_of_clicks(spark: SparkSession) -> str:
    """Run a stream whose hot users change; returns its checkpoint."""
    random = np.random.default_rng(3)
    shares = 1 / np.arange(1, 501)
    shares /= shares.sum()
    batches = []
    for batch in range(BATCHES):
        who = np.random.default_rng(batch // 12).permutation(500)
        users = who[random.choice(500, 4000, p=shares)]
        batches.append(pa.table({"user": [f"user-{user}" for user in users]}))
    query = (
        unskew.stream(stream_of(spark, batches, "user string"), "user")
        .aggregate(n=unskew.count())
        .start(
            lambda df, _: run(df),
            checkpoint=(checkpoint := str(Path(tempfile.mkdtemp()) / "checkpoint")),
            slots=6,
            trigger="availableNow",
            policy=unskew.Policy(patience=1, cooldown=0, tolerance=0.1, horizon=1000),
        )
    )
    query.awaitTermination()
    return checkpoint


def watch(spark: SparkSession, camera: Camera) -> None:
    """The page of `unskew watch`: its top on a wide screen by day, the slots on a narrow one by night."""
    browser = camera.browser
    reader = JournalReader(stream_of_clicks(spark))
    reader.checkpoint = "/data/checkpoint"
    with WatchServer(reader) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, width, scheme, part in (
            ("watch.png", 1100, "light", "header"),
            ("watch-narrow.png", 390, "dark", "#last"),
        ):
            browser.look(width=width, height=900, scheme=scheme)
            browser.open(server.address)
            browser.wait("document.querySelectorAll('.chart > svg').length === 6")
            camera.take(name, part, "#moves", height=1100)
        server.shutdown()
        thread.join()


def last_task_runs(spark: SparkSession) -> bool:
    """Whether one task is left of a stage with as many tasks as there are cores."""
    tracker = spark.sparkContext.statusTracker()
    running = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return any(info and info.numTasks == CORES and info.numCompletedTasks == CORES - 1 for info in running)


def number_of_last_stage(spark: SparkSession) -> int:
    """The stage that ran last: that of the result."""
    tracker = spark.sparkContext.statusTracker()
    job = max(tracker.getJobIdsForGroup(None))
    return max(tracker.getJobInfo(job).stageIds)


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what the picture should show did not happen")
        time.sleep(0.05)


def main() -> None:
    """Take all screenshots."""
    if CHROMIUM is None:
        sys.exit("no Chromium or Chrome is installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(Path(profile))
        try:
            with driver() as spark:
                camera = Camera(browser)
                if "watch" not in sys.argv:
                    stages(spark, camera)
                watch(spark, camera)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
