"""The JSON Schema of `results.json`, generated from the record itself.

`python -m leakmeter.report.schema > docs/results.schema.json` writes the published copy; a test keeps it current.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from leakmeter.results import SCHEMA_VERSION, AuditResult


def results_schema() -> dict[str, Any]:
    """A schema of draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"leakmeter results, schema version {SCHEMA_VERSION}",
        **AuditResult.model_json_schema(mode="serialization"),
    }


def schema_text() -> str:
    """The file as published."""
    return json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
