"""Which names a Python has, and with which signatures; needs nothing but the standard library.

A script for a process of its own, in whatever environment is to be asked: on stdin the JSON object
{"names": [name, ...], "signatures": [name, ...]}, on stdout name → answer.  An answer is {"found": bool,
"overloads": [[parameter, ...], ...]}, a parameter is [name, keyword only, default or null]; null in place of
overloads where none can be told.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import io
import json
import pathlib
import re
import sys
import warnings
from typing import Any

_TAKES = re.compile(r"takes (?:from \d+ to )?(\d+) positional argument")


def resolve(name: str) -> Any:
    """The object that a dotted name means.  Raises LookupError."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        except Exception as error:
            raise LookupError(f"importing it fails: {error}") from None
        try:
            return functools.reduce(getattr, parts[count:], found)
        except Exception as error:
            raise LookupError(str(error)) from None
    raise LookupError("no such module")


def overloads(found: Any, name: str) -> list[list[list[Any]]] | None:
    """The parameters of a function, method or class, for each way to call it."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        known = stubs(name)
        limit = positional(found, name) if len(known) == 1 else None
        return [_limited(row, limit) for row in known] or None
    rows: list[list[Any]] = []
    for item in signature.parameters.values():
        stars = "**" if item.kind is item.VAR_KEYWORD else "*" if item.kind is item.VAR_POSITIONAL else ""
        default = None if item.default is inspect.Parameter.empty else repr(item.default)
        rows.append([stars + item.name, item.kind is item.KEYWORD_ONLY, default])
    return [rows]


def positional(found: Any, name: str) -> int | None:
    """How many arguments a function of C++ takes by position; stubs don't always say it right."""
    receiver = [sys.modules["torch"].zeros(1)] if name.startswith("torch.Tensor.") else []
    try:
        found(*receiver, *([None] * 40))
    except Exception as error:
        match = _TAKES.search(str(error))
        return int(match[1]) + len(receiver) if match else None
    return None


def _limited(rows: list[list[Any]], limit: int | None) -> list[list[Any]]:
    """Parameters with all behind the first `limit` by keyword only."""
    return [
        [name, keyword or (limit is not None and number >= limit), default]
        for number, (name, keyword, default) in enumerate(rows)
    ]


def stubs(name: str) -> list[list[list[Any]]]:
    """The overloads of a function that is written in C++, from the stubs that torch is installed with."""
    head, _, last = name.rpartition(".")
    files = {
        "torch": ["_C/_VariableFunctions.pyi"],
        "torch.Tensor": ["_C/__init__.pyi"],
        "torch.nn.functional": ["_C/_nn.pyi", "nn/functional.pyi", "_C/_VariableFunctions.pyi"],
    }
    for file in files.get(head, ()):
        found = _stub(file, "Tensor" if head == "torch.Tensor" else "").get(last)
        if found:
            return found
    return []


@functools.cache
def _stub(file: str, owner: str) -> dict[str, list[list[list[Any]]]]:
    """Name → overloads, of the functions of a stub, or of the methods of its classes named `owner`."""
    path = pathlib.Path(str(sys.modules["torch"].__file__)).parent / file
    if not path.is_file():
        return {}
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    if owner:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and owner in node.name]
        body = [item for node in classes for item in node.body]
    table: dict[str, list[list[list[Any]]]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            table.setdefault(node.name, []).append(parameters(node.args))
    return table


def parameters(found: ast.arguments) -> list[list[Any]]:
    """The parameters of a function definition."""
    plain = [*found.posonlyargs, *found.args]
    missing: list[Any] = [None] * (len(plain) - len(found.defaults))
    pairs = [(item, False, default) for item, default in zip(plain, [*missing, *found.defaults], strict=True)]
    pairs += [
        (item, True, default) for item, default in zip(found.kwonlyargs, found.kw_defaults, strict=True)
    ]
    return [[item.arg, kw, ast.unparse(node) if node is not None else None] for item, kw, node in pairs]


def answer(name: str, signature: bool) -> dict[str, Any]:
    """What there is to say about a name."""
    try:
        found = resolve(name)
    except LookupError as error:
        return {"found": False, "why": str(error)}
    return {"found": True, "overloads": overloads(found, name) if signature else None}


def main() -> None:
    """Answer what stdin asks."""
    asked = json.load(sys.stdin)
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")
        signatures = set(asked["signatures"])
        found = {name: answer(name, name in signatures) for name in asked["names"]}
        module = sys.modules.get("torch")
        version = str(getattr(module, "__version__", ""))
    json.dump({"torch": version, "python": sys.version.split()[0], "names": found}, sys.stdout)


if __name__ == "__main__":
    main()
