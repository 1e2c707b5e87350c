"""Print one of README's two commands, so that CI runs exactly what README says.

Usage: readme_command.py main|tests
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def command(name: str) -> str:
    """The shell block of README that follows the marker `<!-- command: NAME -->`."""
    text = (Path(__file__).parent.parent / "README.md").read_text()
    found = re.search(rf"<!-- command: {name} -->\s*```[a-z]*\n(.*?)```", text, re.DOTALL)
    if not found:
        raise SystemExit(f"README.md has no command named {name!r}")
    return found.group(1)


if __name__ == "__main__":
    print(command(sys.argv[1]), end="")
