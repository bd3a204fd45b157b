"""`python -m examples.notebooks [NAME …]`: run the notebooks of this folder and save what their cells print and draw.

The docs show the notebooks as pages in docs/tutorials, which are written from them: the text, the code, the output and
the pictures.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent
PAGES = FOLDER.parent / "docs" / "tutorials"
NAMES = ("join", "group", "window", "stream", "event_log", "story")
"""In the order in which the site has them."""


def read(name: str) -> dict[str, Any]:
    """A notebook of this folder."""
    notebook: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))
    return notebook


def run(name: str) -> list[list[dict[str, Any]]]:
    """Run the code cells in one namespace; returns the outputs of each cell."""
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(code_cells(read(name)), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number} of {name}.ipynb", "exec"), names)
        text = [
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        ]
        outputs.append([*(text if printed.getvalue() else []), *map(_picture, plt.get_fignums())])
        plt.close("all")
    return outputs


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _picture(number: int) -> dict[str, Any]:
    image = io.BytesIO()
    plt.figure(number).savefig(image, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
    data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": ["<Figure>"]}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def refresh(name: str) -> None:
    """Run a notebook and save its outputs in it."""
    notebook = read(name)
    for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(name), strict=True), 1):
        cell["execution_count"], cell["outputs"] = number, outputs
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}.ipynb").write_text(text, "utf-8")


def page(name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook with its saved outputs as a page of the docs, and the pictures of the page by file name."""
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in read(name)["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            else:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(output["data"]["image/png"])
                parts.append(f"![What the cell above draws]({file})")
    parts.append(
        f"*This page is the notebook `examples/{name}.ipynb`, as `python -m examples.notebooks` ran it.*"
    )
    return "\n\n".join(parts) + "\n", pictures


def write_page(name: str) -> None:
    """Write the page of a notebook and its pictures."""
    PAGES.mkdir(exist_ok=True)
    text, pictures = page(name)
    for old in PAGES.glob(f"{name}-*.png"):
        old.unlink()
    for file, picture in pictures.items():
        (PAGES / file).write_bytes(picture)
    (PAGES / f"{name}.md").write_text(text, "utf-8")


def main() -> None:
    """Refresh the notebooks named on the command line, or all, and their pages."""
    for name in sys.argv[1:] or NAMES:
        print(name, flush=True)
        refresh(name)
        write_page(name)


if __name__ == "__main__":
    main()
