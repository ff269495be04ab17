"""The bar over a batch: what runs where, what failed and why, how fast."""

from contextlib import contextmanager

from leakmeter.executors.bar import BatchBar
from leakmeter.executors.job import Job


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done, self.note = 0, ""

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def task(self, title, total):
        yield self

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.done, self.note = self.done + steps, note


def test_tells_of_the_whole_batch() -> None:
    shown, results = Listener(), {}

    def ended(job: Job, text: str) -> tuple[int, str]:
        results[job.place] = text
        return 500, "the victim answered with NaN" if text == "bad" else ""

    def failed(job: Job, why: str) -> None:
        results[job.place] = why

    bar = BatchBar(shown, shown, ended, failed)
    a, b, c, d = (Job(f"cells/{name}", "") for name in "abcd")
    for job, host in (a, "ant"), (b, "ant"), (c, "bee"), (d, "bee"):
        bar.started(job, host)
    assert shown.note == "running: 2 on ant, 2 on bee"
    bar.ended(a, "good")
    bar.interrupted(b, "its worker died")
    bar.started(b, "bee")
    assert shown.note.startswith("running: 3 on bee; ")
    assert shown.note.endswith(" queries/s")
    bar.ended(b, "bad")
    bar.failed(c, "its worker died 5 times")
    assert (shown.done, results["cells/c"]) == (3, "its worker died 5 times")
    assert "2 failed" in shown.note
    assert shown.lines == [
        "cells/b was interrupted on ant: its worker died; it goes on",
        "cells/b failed on bee: the victim answered with NaN",
        "cells/c failed on bee: its worker died 5 times",
    ]
