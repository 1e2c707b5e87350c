"""What portkit's operators and modules replace, read from the data beside them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from portkit import tables
from portkit.finding import DropArgument, Edit, NameArgument, RenameKeyword, SetArgument
from portkit.rewriters import _calls
from portkit.rule import Context

TIERS = ("cuda-bound", "compute", "all")


@dataclass(frozen=True)
class Replacement:
    """One callable of another library, and how its arguments become ours."""

    name: str  # qualified name of the callable that is replaced
    to: str  # ours, under pk.ops or pk.nn
    tier: str
    support: str
    note: str
    signature: tuple[_calls.Parameter, ...]
    ours: tuple[str, ...] | None  # names of our parameters in order; None if the source is not readable
    map: dict[str, str] = field(hash=False)
    drop: dict[str, str] = field(hash=False)
    refuse: dict[str, str] = field(hash=False)
    require: dict[str, str] = field(hash=False)
    add: dict[str, str] = field(hash=False)
    default: dict[str, str] = field(hash=False)  # theirs, written out where a call leaves it and ours differs

    def wanted(self, level: str) -> bool:
        """Whether `--operators level` includes this replacement."""
        return TIERS.index(self.tier) <= TIERS.index(level)


@cache
def replacements(folder: Path) -> dict[str, Replacement]:
    """Every replacement that the TOML files of a folder describe, by the name that is replaced."""
    found: dict[str, Replacement] = {}
    for path in sorted(folder.glob("*.toml")):
        data = tables.read(path)
        inherited = {e["name"]: e["signature"] for e in data.get("replaces", ())}
        for entry in data.get("replaces", ()):
            to = entry.get("to", data["name"])
            found[entry["name"]] = Replacement(
                name=entry["name"],
                to=to,
                tier=entry["tier"],
                support=entry.get("support", "auto"),
                note=entry.get("note", ""),
                signature=_calls.signature(entry["signature"]),
                ours=_parameters(path.with_suffix(".py"), to, inherited.get(f"torch.nn.{to}")),
                map=entry.get("map", {}),
                drop=entry.get("drop", {}),
                refuse=entry.get("refuse", {}),
                require=entry.get("require", {}),
                add=entry.get("add", {}),
                default=entry.get("default", {}),
            )
    return found


@cache
def _parameters(path: Path, name: str, inherited: str | None) -> tuple[str, ...] | None:
    """Names of the positional parameters of a function (or of a class's constructor) in a source file.

    A class without a constructor has that of its base, which is torch's module of the same name.
    """
    if not path.exists():
        return None
    for item in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.FunctionDef) and item.name == name:
            return _positional(_calls.parameters(item.args))
        if isinstance(item, ast.ClassDef) and item.name == name:
            for method in item.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    return _positional(_calls.parameters(method.args))[1:]
            return _positional(_calls.signature(inherited)) if inherited is not None else None
    return None


def _positional(parameters: tuple[_calls.Parameter, ...]) -> tuple[str, ...]:
    return tuple(item.name for item in parameters if item.positional)


def adapt(call: ast.Call, found: Replacement, ctx: Context) -> list[Edit] | str:
    """Edits that turn the arguments of a call into ours, or the reason why that can't be done.

    Positional arguments stay positional while both sides have the same order, and become keywords after that.
    """
    bound = _calls.bind(call, found.signature)
    if isinstance(bound, str):
        return bound
    defaults = {p.name: p.default for p in found.signature}
    for name, reason in found.require.items():
        if name not in bound:
            return reason
    edits: list[Edit] = []
    span = ctx.span(call)
    in_place = True
    position = 0
    for name, given in bound.items():
        if name in found.refuse and ast.unparse(given.node) != defaults.get(name):
            return found.refuse[name]
        if name in found.refuse or name in found.drop:
            edits.append(DropArgument(span, index=given.index, keyword=given.keyword))
            in_place = False
            continue
        ours = found.map.get(name, name)
        if given.index is None:
            if ours != given.keyword and given.keyword is not None:
                edits.append(RenameKeyword(span, given.keyword, ours))
            continue
        in_place = in_place and found.ours is not None and found.ours[position : position + 1] == (ours,)
        position += 1
        if not in_place:
            edits.append(NameArgument(span, given.index, ours))
    edits.extend(SetArgument(span, keyword, text) for keyword, text in found.add.items())
    left = ((found.map.get(n, n), text) for n, text in found.default.items() if n not in bound)
    edits.extend(SetArgument(span, keyword, text) for keyword, text in left)
    return edits
