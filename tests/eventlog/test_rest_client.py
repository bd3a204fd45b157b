"""Whatever answers at an address: one line says what is wrong, in bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.eventlog.rest import RestApplication
from unskew.eventlog.rest_client import RestClient

JSON = "application/json"
Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Start a server that gives one answer to everything; returns its address."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def says(body: str, kind: str = JSON, code: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def trickles(handler: BaseHTTPRequestHandler) -> None:
    says("[")(handler)
    for _ in range(100):
        time.sleep(0.05)
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (says("<html>log in</html>", "text/html"), "answered text/html, not JSON"),
        (says("<html>", JSON), "its answer is not JSON"),
        (says("[" * 100_000), "its answer is not JSON"),
        (says('{"spark": "3.4.1"}'), "Spark 3.4.1 is too old: it needs to be 3.5 or later"),
        (says('{"spark": 7}'), "no web interface of Spark"),
        (says("[]"), "no web interface of Spark"),
        (says("", code=401), "answered 401: a log-in is needed"),
        (says("", code=500), "answered 500"),
        (says("", code=302, Location="http://elsewhere.example/x"), "redirects to elsewhere.example"),
        (says("", code=302, Location="file:///etc/passwd"), "redirect"),
        (says("", code=302, Location="/again"), "redirect"),
        (says(" " * 3_000_000), "more than 2 MB"),
        (lambda handler: time.sleep(1), "no whole answer within 0.5 s"),
        (trickles, "no whole answer within 0.5 s"),
        (lambda handler: handler.wfile.write(b"\x16\x03\x01\x00" * 9 + b"\n"), "not an answer of Spark"),
    ],
)
def test_one_line_says_what_is_wrong(serve: Callable[[Answer], str], answer: Answer, message: str) -> None:
    address = serve(answer)
    with pytest.raises(ValueError, match=r"^http://127") as caught:
        RestClient(address, timeout=0.5, largest=2 * 2**20).version()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["file:///etc/passwd", "ftp://host", "http://", "http://host:port", "http://a b", "http://u:p@h"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"http://host:port"):
        RestClient(address)


def test_nobody_answers() -> None:
    with pytest.raises(ValueError, match=r"does not answer: Connection refused"):
        RestClient("localhost:1").version()


APPLICATIONS = '[{"id": "app-1", "name": "a\\u001b[31m"}, {"id": "app-2", "name": "b"}]'


def spark_with(applications: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        version = handler.path.endswith("/version")
        says('{"spark": "4.3.0"}' if version else applications)(handler)

    return answer


def test_which_application(serve: Callable[[Answer], str]) -> None:
    address = serve(spark_with(APPLICATIONS))
    with pytest.raises(ValueError, match=r"2 applications: give --app-id; it knows app-1 .*app-2"):
        RestApplication(address)
    with pytest.raises(ValueError, match=r"no application 'app-3': choose another; it knows app-1"):
        RestApplication(address, "app-3")
    assert RestApplication(address, "app-2").application == "b"
    for applications, message in (
        ("[]", "no application yet"),
        ('{"a": 1}', "not a list"),
        ("[1]", "not a list"),
    ):
        with pytest.raises(ValueError, match=message):
            RestApplication(serve(spark_with(applications)))


def test_stages_that_are_none_are_refused(serve: Callable[[Answer], str]) -> None:
    with pytest.raises(ValueError, match="not an answer of Spark"):
        list(RestApplication(serve(spark_with('[{"id": "app-1"}]'))).stages())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--app", "localhost:1"], "does not answer"),
        (["--app", "gopher://x"], "not an address of Spark's web interface"),
        (["--app", "localhost:1", "--key", "user"], "--key does not go with --app"),
        (["--history", "localhost:1", "--app", "localhost:1"], "does not go with"),
        (["--app-id", "app-1"], "--app-id needs --history"),
    ],
)
def test_the_command_prints_one_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["diagnose", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert line.startswith("error: ")
    assert message in line


def test_a_name_cannot_write_to_the_terminal(serve: Callable[[Answer], str]) -> None:
    result = CliRunner().invoke(app, ["diagnose", "--history", serve(spark_with(APPLICATIONS))])
    assert result.exit_code == 2
    assert "\x1b[31m" not in result.stderr
    assert r"a\x1b[31m" in result.stderr
