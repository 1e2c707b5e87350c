"""With what a scan was compared, and how that came out, in one line each."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.engine import ScanResult

_HASH = 10  # digits of a commit's name


def lines(result: ScanResult) -> Iterator[str]:
    """Nothing where a scan was compared with nothing."""
    since = result.since
    if since is not None:
        commits = ", ".join(commit[:_HASH] for commit in since.commits)
        added = len(result.findings)
        before = f"beside {since.unchanged} from before"
        yield f"Only what was added since {since.revision} ({commits}): {added}, {before}"
    found = result.baseline
    if found is not None:
        gone = f", {len(found.gone)} gone: write it anew to keep them out" if found.gone else ""
        yield f"Baseline {found.file.as_posix()}: {len(found.new)} new, {len(found.known)} known{gone}"
