"""`python -m examples.refresh_story`: run the cells of story.ipynb in order, and save what they print and draw."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

STORY = Path(__file__).parent / "story.ipynb"


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the code cells in one namespace; returns the outputs of each cell."""
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(code_cells(notebook), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number} of {STORY.name}", "exec"), names)
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


def main() -> None:
    """Refresh the notebook in place."""
    notebook = json.loads(STORY.read_text("utf-8"))
    cells = code_cells(notebook)
    for number, (cell, outputs) in enumerate(zip(cells, run(notebook), strict=True), 1):
        cell["execution_count"], cell["outputs"] = number, outputs
    STORY.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
