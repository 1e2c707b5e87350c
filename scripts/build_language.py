"""Writes the table of what kernels may use, `portkit/runtime/tile/language.toml`, from the compiler itself.

python scripts/build_language.py            # write it
python scripts/build_language.py --check    # exit code 1 if it differs
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap

import portkit.runtime.tile.language as tl
from portkit.runtime import triton
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import calls, expressions, introspect, statements
from portkit.runtime.tile.language.extra import cuda, libdevice

_ABOUT = "\n# The parameters of each function; as a method of a tile, the first is the tile"


def lists() -> dict[str, set[str]]:
    """Each list of the table."""
    known = set(calls.handlers())
    nodes = {*expressions._HANDLERS, *statements._HANDLERS, ast.If, ast.For, ast.While, ast.Return}
    return {
        "functions": {n for n in known if hasattr(tl, n)}
        | {"constexpr", "pointer_type", "range", "static_range"},
        "math": {n for n in known if hasattr(tl.math, n)},
        "libdevice": set(libdevice.__all__),
        "methods": set(calls.methods()),
        "attributes": {*introspect._VALUE, "T"},
        "type_attributes": {*introspect._TYPE, *introspect._DTYPE, *introspect._POINTER},
        "dtypes": {n for n in tl.__all__ if isinstance(getattr(tl, n), ir.DType)},
        "builtins": set(calls._CONSTANT_BUILTINS),
        "triton": set(triton.__all__),
        "syntax": {n.__name__ for n in nodes},
        "extra": {n for n in known if hasattr(cuda, n)},
    }


def parameters() -> dict[str, str]:
    """The names that each function of the language gives its parameters, in order; without those that take
    any."""
    found = {}
    for name in sorted(calls.handlers()):
        declared = getattr(tl, name, None) or getattr(tl.math, name, None) or getattr(cuda, name)
        items = inspect.signature(declared).parameters.values()
        if all(item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD) for item in items):
            found[name] = " ".join(item.name for item in items)
    return found


def table(text: str) -> str:
    """The table with its lists renewed, and without refusals of what there is now."""
    for name, items in lists().items():
        body = textwrap.fill(
            ", ".join(f'"{item}"' for item in sorted(items)),
            width=98,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        pattern = re.compile(rf"^{name} = \[.*?^\]", re.DOTALL | re.MULTILINE)
        text, count = pattern.subn(f"{name} = [\n{body},\n]", text)
        assert count == 1, name
    head, _, rest = text.partition("[refused]\n")
    refused = rest.partition("\n[parameters]\n")[0].removesuffix(_ABOUT)
    kept = [line for line in refused.splitlines() if line and not hasattr(tl, line.partition(" =")[0])]
    named = [f'{name} = "{names}"' for name, names in parameters().items()]
    return f"{head}[refused]\n" + "\n".join([*kept, _ABOUT, "[parameters]", *named]) + "\n"


def main() -> int:
    """The exit code."""
    path = introspect.TABLE
    before = path.read_text(encoding="utf-8")
    after = table(before)
    if "--check" in sys.argv[1:]:
        return int(before != after)
    path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
