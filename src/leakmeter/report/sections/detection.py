"""Detection: the query at which a detector, replayed over the log, would have raised an alarm."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from leakmeter.detectors.detection import Detection
from leakmeter.report.blocks import Block, Folded, Numeric, Preformatted, Row, Section, Table
from leakmeter.report.notes import noted
from leakmeter.report.words import count, surface_words
from leakmeter.results import AuditResult
from leakmeter.verdict import arm_label


def section(result: AuditResult, _: Path) -> Section | None:
    """Left out where no detector looked."""
    groups, other = arm_detections(result), noted(result, "detector", Detection)[1]
    if not groups and not other:
        return None
    lead = "A detector replayed over the log of each attack: at which query would it have raised an alarm?"
    rows = [
        Row(label, surface_words(view, defense), detector, fired_words(found))
        for (label, view, defense, detector), found in groups.items()
    ]
    columns = ("Attack", "Shown", "Detector", Numeric("Would have fired at query"))
    blocks: list[Block] = [Table("Detectors over the query logs", columns, rows)]
    if other:
        blocks.append(Folded(f"{len(other)} more, as recorded", [Preformatted("\n".join(other))]))
    return Section("detection", "Detection", lead, blocks)


def arm_detections(result: AuditResult) -> dict[tuple[str, str, str, str], list[Detection]]:
    """What each detector saw of each arm (its label, view and defense), a `Detection` a seed."""
    groups: dict[tuple[str, str, str, str], list[Detection]] = defaultdict(list)
    for cell, found in noted(result, "detector", Detection)[0]:
        groups[arm_label(cell), cell.view, cell.defense, found.detector].append(found)
    return groups


def fired_words(found: list[Detection]) -> str:
    """When it would have fired: the earliest and the latest over seeds."""
    moments = sorted(each.fired_at for each in found if each.fired_at is not None)
    queries = max(each.queries for each in found)
    also = "; honest test data sets it off too" if any(each.benign is not None for each in found) else ""
    if not moments:
        return f"never in {count(queries)}{also}"
    ends = " to ".join(dict.fromkeys((count(moments[0]), count(moments[-1]))))
    missed = len(found) - len(moments)
    never = f", never in {missed} of {len(found)} runs" if missed else ""
    return f"{ends} of {count(queries)}{never}{also}"
