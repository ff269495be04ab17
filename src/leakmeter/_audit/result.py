"""What an audit returns in Python: its record, its folder, and how a notebook shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from leakmeter.errors import UsageError
from leakmeter.report.html import summary_html
from leakmeter.results import AuditResult, CellResult


class Audit(AuditResult):
    """A result that knows its run directory, and that a notebook shows as the summary of its report."""

    folder: Path = Field(default=Path(), exclude=True)

    def _repr_html_(self) -> str:
        return summary_html(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each cell: what was attacked how, what it cost and how good the copy is."""
        try:
            import pandas
        except ImportError as error:
            raise UsageError(
                "this needs the package pandas, which is not installed; run: pip install pandas"
            ) from error
        return pandas.DataFrame([_flat(cell) for cell in self.cells])


def _flat(cell: CellResult) -> dict[str, Any]:
    score = None if cell.final is None else cell.final.score
    return {
        **cell.model_dump(include={"attack", "view", "defense", "seed", "budget", "control", "status", "error"}),
        "queries": None if cell.spending is None else cell.spending.queries,
        "money": None if cell.spending is None else cell.spending.money,
        "fidelity": None if score is None else score.fidelity,
        "accuracy": None if score is None else score.accuracy,
        "transfer": None if cell.transfer is None else cell.transfer.copy_rate.value,
        "seconds": cell.seconds,
    }
