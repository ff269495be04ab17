"""Writes what docs/explanations.md and README.md say of results/explanations/explanations.json.

python tools/explanations.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from leakmeter.studies.ours._shown import page, sentence

ROOT = Path(__file__).parents[1]
PAGE, MARKS = ROOT / "docs" / "explanations.md", r"(<!-- made by tools/explanations.py -->\n\n).*?(\n\n<!-- end -->)"
README, AROUND = ROOT / "README.md", r"(a copy from 10 answers with it \| ).*?( \(insertion less deletion\))"


def main() -> None:
    """Replaces what stands between the marks."""
    found = json.loads((ROOT / "results" / "explanations" / "explanations.json").read_text())
    replace(PAGE, MARKS, page(found))
    replace(README, AROUND, sentence(found))


def replace(place: Path, marks: str, told: str) -> None:
    """Puts `told` between the two groups of the pattern `marks`."""
    text = place.read_text()
    place.write_text(re.sub(marks, lambda mark: mark[1] + told + mark[2], text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
