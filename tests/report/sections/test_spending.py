from leakmeter.report.blocks import Table
from leakmeter.report.sections.spending import section


def test_the_ledger_adds_up(full_audit, tmp_path):
    (ledger,) = [block for block in section(full_audit, tmp_path).blocks if isinstance(block, Table)]
    rows = [dict(zip(ledger.columns, (entry.text for entry in row.entries), strict=True)) for row in ledger.rows]
    queries = sum(int(row["Queries"].replace(",", "")) for row in rows)
    assert queries == sum(cell.spending.queries for cell in full_audit.cells)
    assert {row["Runs"] for row in rows} == {"3"}
    assert sum(float(row["USD"]) for row in rows) == sum(cell.spending.money for cell in full_audit.cells)
