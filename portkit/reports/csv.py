"""The report as CSV (RFC 4180), one row a finding, for spreadsheets and databases."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from portkit.engine import ScanResult
from portkit.finding import Finding, Location, Phase, Support
from portkit.reports.json import finding_data

# what a spreadsheet takes for the beginning of a formula, full-width forms included
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NONE = Finding("", Phase.OPERATOR, Support.UNKNOWN, Location("", 1, 1, 1, 1), "", "")


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """CSV text with the keys of the JSON report as header; `verbose`, `colour` and `width` change nothing."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(finding_data(_NONE))
    for item in result.findings:
        data = finding_data(item, result.is_new(item), result.affects)
        writer.writerow(_cell(value) for value in data.values())
    return stream.getvalue()


def _cell(value: Any) -> str:
    """A value as text that no spreadsheet executes; lists and tables as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.lstrip(" ").startswith(_FORMULA) else text
