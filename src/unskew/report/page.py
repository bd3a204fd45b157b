"""One self-contained HTML page: prose, key figures, charts with the table behind each, tables.

Every report of unskew is assembled here, so that they all look alike. Parts are plain data; charts are
Vega-Lite specifications from any source.

What the page guards: it loads nothing from anywhere, and never runs any text that is put into it. Text is
escaped. Chart data is in a JSON block that the browser does not execute, with `<`, `>` and `&` written as
escapes. A content security policy allows the page's own two scripts by their digests and no request at all,
and Vega interprets its expressions instead of evaluating them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, TypeAlias

from unskew.core import addresses
from unskew.core.addresses import Address

Row: TypeAlias = Mapping[str, Any]

_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; {more}; script-src {scripts}"
_FOR_VEGA = "img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Card:
    """A key figure: what it is, its value with the unit, and one line of context."""

    label: str
    value: str
    note: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Cards:
    """Key figures side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Column:
    """A column of a table: the rows' field, the heading, and how a value is written, with its unit.

    >>> Column("moved", "state moved", "{:.1%}").show({"moved": 0.125})
    '12.5%'
    """

    field: str
    title: str
    form: str = "{}"

    def show(self, row: Row) -> str:
        """The cell's text; a missing, undefined or infinite figure is a dash."""
        value = row.get(self.field)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "–"
        return self.form.format(value)


@dataclass(frozen=True)
class Table:
    """Rows under columns; rows whose index is in `strong` are highlighted."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification with its title, a caption that says how to read it, and the figures behind it."""

    title: str
    spec: Mapping[str, Any]
    table: Table
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """An SVG document, shown as an image: nothing in it can run. `text` describes it."""

    svg: str
    text: str


Part: TypeAlias = Text | Cards | Chart | Table | Picture


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence[Part]


def render(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """The page as one HTML document without external assets.

    The three JavaScript libraries that draw the charts are in it once, about 0.9 MB, if it has a chart.
    """
    charts = [part for section in sections for part in section.parts if isinstance(part, Chart)]
    scripts = [_libraries(), resource("page.js")] if charts else []
    body = (
        f'<header><h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p></header>\n'
        f"<main>\n{''.join(_section(section, charts) for section in sections)}</main>\n"
        f"<footer><p>{escape(footer)}</p></footer>\n"
    )
    return document(title, body, resource("page.css"), scripts, policy(scripts, _FOR_VEGA))


def document(title: str, body: str, style: str, scripts: Sequence[str], rules: str) -> str:
    """An HTML document under the security policy `rules`; `body` is markup, and the scripts follow it."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(rules)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def policy(scripts: Sequence[str], more: str) -> str:
    """A content security policy that allows these inline scripts, by their digests, and what `more` names."""
    return _POLICY.format(more=more, scripts=" ".join(map(digest, scripts)) or "'none'")


def digest(text: str) -> str:
    """What allows an inline script or style in a security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def resource(name: str, package: str = "unskew.report") -> str:
    """A text file of a package, with the line ends that browsers convert it to before they compute a digest."""
    return files(package).joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def write(path: Address, page: str) -> Address:
    """Write the page, creating its folder; characters that UTF-8 cannot hold become question marks."""
    target = addresses.local_path(path)
    if target is None:
        addresses.write(path, page.encode("utf-8", "replace"))
        return path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    return target


def embedded_json(value: Any) -> str:
    """JSON that is inert inside a script element, even if it holds markup.

    >>> embedded_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    # ASCII only, so U+2028 is already an escape
    text = json.dumps(_plain(value), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _section(section: Section, charts: Sequence[Chart]) -> str:
    parts = "".join(_part(part, charts) for part in section.parts)
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{parts}</section>\n"


def _part(part: Part, charts: Sequence[Chart]) -> str:
    match part:
        case Text():
            return f"<p>{escape(part.text)}</p>\n"
        case Cards():
            return '<div class="cards">\n' + "".join(map(_card, part.cards)) + "</div>\n"
        case Table():
            return _table(part)
        case Chart():
            number = next(i for i, chart in enumerate(charts) if chart is part)
            return _chart(part, f"chart-{number + 1}")
        case Picture():
            data = base64.b64encode(part.svg.encode()).decode()
            image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(part.text)}">'
            return f"<figure>{image}</figure>\n"


def _card(card: Card) -> str:
    classes = "card strong" if card.strong else "card"
    return (
        f'<div class="{classes}"><div class="label">{escape(card.label)}</div>'
        f'<div class="value">{escape(card.value)}</div><div class="note">{escape(card.note)}</div></div>\n'
    )


def _table(table: Table) -> str:
    numeric = [any(isinstance(row.get(c.field), int | float) for row in table.rows) for c in table.columns]
    attributes = [' class="number"' if n else "" for n in numeric]
    columns = list(zip(table.columns, attributes, strict=True))
    head = "".join(f'<th scope="col"{attribute}>{escape(c.title)}</th>' for c, attribute in columns)
    body = []
    for i, row in enumerate(table.rows):
        cells = "".join(f"<td{attribute}>{escape(c.show(row))}</td>" for c, attribute in columns)
        body.append(f'<tr class="strong">{cells}</tr>\n' if i in table.strong else f"<tr>{cells}</tr>\n")
    return (
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{''.join(body)}</tbody>\n</table></div>\n"
    )


def _chart(chart: Chart, name: str) -> str:
    # without $schema the libraries use their own version, and the page holds no address at all
    spec = {field: value for field, value in chart.spec.items() if field != "$schema"}
    caption = f"<p>{escape(chart.caption)}</p>" if chart.caption else ""
    return (
        f"<figure>\n<figcaption><h3>{escape(chart.title)}</h3>{caption}</figcaption>\n"
        f'<div class="chart" data-chart="{name}"></div>\n'
        f'<script type="application/json" id="{name}">{embedded_json(spec)}</script>\n'
        "<details><summary>The figures behind this chart</summary>\n"
        f"{_table(chart.table)}</details>\n</figure>\n"
    )


def _plain(value: Any) -> Any:
    """Mappings, lists, strings and finite numbers; numbers that JSON cannot hold become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script that sets `window.vegaEmbed`."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub forgets that it has a default
    # browsers turn \\r\\n into \\n before they compute the digest
    return bundle.replace("</script", "<\\/script").replace("\r\n", "\n")
