from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.report.html_facts import read
from tests.report.watch.journals import begin, fill, hostile_line, line
from unskew.report.watch.server import WatchServer


def ask(
    server: WatchServer, path: str, *, method: str = "GET", hosts: list[str] | None = None
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    connection.putrequest(method, path, skip_host=True)
    for host in [f"127.0.0.1:{server.server_port}"] if hosts is None else hosts:
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def news(server: WatchServer, position: str = "") -> dict[str, Any]:
    response, body = ask(server, f"/news?after={position}")
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    return dict(json.loads(body))


def test_the_page_is_served_with_nothing_from_elsewhere(server: WatchServer) -> None:
    response, body = ask(server, "/")
    assert response.status == 200
    page = read(body)
    assert not {name for name, _ in page.attributes} & {"src", "href", "style"}
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_journal_comes_in_small_pieces(server: WatchServer, tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    assert news(server)["status"]["word"] == "waiting"
    fill(ledger, 150)
    everything = news(server)
    assert [row[0] for row in everything["batches"]] == list(range(150))
    assert everything["latest"]["slots"][0] == [0, 400, 20, 2400]
    assert everything["latest"]["top"][0] == ["alice", 300.0, 0, True, None, None]
    ledger.write_line(line(150))
    more = news(server, everything["position"])
    assert [row[0] for row in more["batches"]] == [150]
    assert len(json.dumps(more)) < 2000
    assert news(server, more["position"])["batches"] == []


def test_keys_travel_as_inert_json(server: WatchServer, tmp_path: Path) -> None:
    begin(tmp_path).write_line(hostile_line(0))
    _, body = ask(server, "/news")
    assert not set(body) & set("<>&\x1b\x00\u202e")
    assert "\\\\x1b[31mred" in body


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.example"],
        ["evil.example:{port}"],
        ["127.0.0.1"],
        ["127.0.0.1:1"],
        [],
        ["127.0.0.1:{port}", "evil"],
    ],
)
def test_other_names_are_refused(server: WatchServer, hosts: list[str]) -> None:
    named = [host.format(port=server.server_port) for host in hosts]
    for path in ("/", "/news"):
        response, body = ask(server, path, hosts=named)
        assert response.status == 421
        assert "setup" not in body


def test_localhost_is_a_name_of_it(server: WatchServer) -> None:
    assert ask(server, "/news", hosts=[f"localhost:{server.server_port}"])[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
def test_only_get_is_answered(server: WatchServer, method: str) -> None:
    assert ask(server, "/news", method=method)[0].status == 501


@pytest.mark.parametrize("path", ["/nowhere", "/../../etc/passwd", "//news/", "/news/../", "/%2e%2e/news"])
def test_there_is_nothing_else(server: WatchServer, path: str) -> None:
    response, body = ask(server, path)
    assert response.status == 404
    assert body == "not found: use / or /news\n"


@pytest.mark.parametrize(("path", "method"), [("/", "GET"), ("/news", "GET"), ("/x", "GET"), ("/", "POST")])
def test_every_response_has_the_security_headers(server: WatchServer, path: str, method: str) -> None:
    headers = ask(server, path, method=method)[0].headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"] == "unskew"


def test_it_listens_on_loopback_only(server: WatchServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", server.server_port))


def test_a_port_that_is_taken_is_named(server: WatchServer) -> None:
    with pytest.raises(ValueError, match=f"port {server.server_port} of 127.0.0.1 cannot be used"):
        WatchServer(server.reader, server.server_port)


def test_a_journal_that_cannot_be_read_is_reported(server: WatchServer, tmp_path: Path) -> None:
    (tmp_path / "unskew" / "operator").write_bytes(b"damaged")
    response, body = ask(server, "/news")
    assert response.status == 503
    assert "operator" in body
