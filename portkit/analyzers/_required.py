"""Requirements: which names a file asks for, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from portkit.analyzers import _commands, _lines
from portkit.finding import Span
from portkit.rewriters import _index
from portkit.rule import Context
from portkit.scopes import walk
from portkit.source import Kind

_REQUIREMENT = re.compile(
    r"^\s*(?:-\s*)?[\"']?(?:[\w.-]+::)?(?P<name>[A-Za-z][\w.-]*)(?:\[[^\]]*\])?(?=\s*(?:[=<>!~@;,\"'|#]|$|\s))"
)
_QUOTED = re.compile(r"[\"'](?P<name>[A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:[=<>!~@; ][^\"']*)?[\"']")
_KEY = re.compile(r"^\s*[\"']?(?P<name>[A-Za-z][\w.-]*)[\"']?\s*=")
_HEADER = re.compile(r"^\s*\[+(?P<name>[^\]]+)\]+\s*$")
_WHEEL = re.compile(r"(?:/|^|\s)(?P<name>[A-Za-z][A-Za-z0-9_.]*)-\d[\w.+%${}-]*\.(?:whl|tar\.gz)")
_WHEEL_IN_VARIABLE = re.compile(r"^\s*(?:export\s+)?\w+=[\"']?https?://\S+\.whl")
_SOURCE = re.compile(
    r"(?:https?|ssh|git)(?:://|@)[^\s\"'/]+/(?:[^\s\"'/@#]+/)*(?P<name>[\w-]+(?:\.(?!git\b)[\w-]+)*)(?:\.git)?"
    r"(?:/(?:archive|tree|releases)/[^\s\"']*)?/?(?=[@#\s\"']|$)"
)
_TABLES = re.compile(
    r"tool\.poetry(?:\.group\.[\w-]+)?\.(?:dev-)?dependencies|(?:dev-)?packages|"
    r"(?:tool\.pixi\.)?(?:feature\.[\w-]+\.)?(?:target\.[\w-]+\.)?(?:pypi-|host-|build-)?dependencies"
)
_LISTS = re.compile(
    r"project\.optional-dependencies|dependency-groups|tool\.pdm\.dev-dependencies|tool\.flit\.metadata.*"
)
_EXTRAS = frozenset({"project.optional-dependencies", "options.extras_require"})
_KEYS = {
    "project": {"dependencies"},
    "build-system": {"requires"},
    "tool.uv": {"dev-dependencies", "override-dependencies", "constraint-dependencies"},
    "options": {"install_requires", "setup_requires", "tests_require"},
    "metadata": {"requires-dist"},
}
_ENVIRONMENT = re.compile(r"tool\.hatch\.envs\.[\w.-]+|testenv.*")
_INSTALL = re.compile(
    r"(?:\b(?:pip[\d.]*|uv(?:\s+pip)?|conda|mamba|micromamba|pipenv|poetry|pdm)\s+(?:-\S+\s+)*(?:install|add|download|wheel|create)\b"
    r"|\b(?:apt(?:-get)?|yum|dnf|zypper|apk)\s+(?:-\S+\s+)*(?:install|add)\b)(?P<rest>[^;&|]*)"
)
_WORD = re.compile(
    r"(?<!-c )(?<!--channel )(?:^|(?<=\s))[\"']?(?!-)(?P<name>[A-Za-z][\w.-]*)"
    r"(?:\[[^\]]*\])?(?=[=<>!~@\s\"'*]|\$[\w({]|$)"  # a version may be put in: `cuda-toolkit-${VERSION}`
)
_CHANNEL = re.compile(
    r"(?:^\s*-\s*|-c\s+|--channel[= ])[\"']?(?P<name>nvidia(?:/label/[\w.-]+)?)[\"']?(?=\s|$)"
)
KEYWORDS = frozenset({"install_requires", "extras_require", "setup_requires", "tests_require"})  # of setup()
_CONDA = re.compile(r"^channels:|^dependencies:", re.M)


@dataclass(frozen=True)
class Required:
    """A name that is asked for; `source` if it is the end of an address, which may name anything; `extra` if
    it is only installed for those who ask for it."""

    name: str
    span: Span
    source: bool = False
    extra: bool = False


def is_conda(ctx: Context) -> bool:
    """Whether a YAML file describes an environment of conda."""
    return len({match[0] for match in _CONDA.finditer(ctx.text)}) == 2


def required(ctx: Context) -> Iterator[Required]:
    """The requirements of a file, in order."""
    if ctx.kind is Kind.REQUIREMENTS or (ctx.kind is Kind.YAML and is_conda(ctx)):
        yield from _listed(ctx)
    elif ctx.kind in (Kind.TOML, Kind.INI):
        yield from _sections(ctx)
    if ctx.kind in _commands.KINDS:
        yield from _installed(ctx)


def channels(ctx: Context) -> Iterator[Span]:
    """Where a file or command takes packages from NVIDIA's channel of conda."""
    if ctx.kind is Kind.REQUIREMENTS or (ctx.kind is Kind.YAML and is_conda(ctx)):
        lines: Iterable[_lines.Line] = _lines.lines(ctx.text)
    elif ctx.kind in _commands.KINDS:
        lines = (line for line in _commands.commands(ctx) if re.search(r"\b(?:conda|mamba)\b", line.text))
    else:
        return
    for line in lines:
        for match in _CHANNEL.finditer(line.text):
            yield line.span(match, "name")


def _listed(ctx: Context) -> Iterator[Required]:
    """requirements.txt, and the lists of conda's files."""
    conda = ctx.path.endswith((".yml", ".yaml"))
    section = ""
    for line in _lines.lines(ctx.text):
        heading = re.match(r"^(?P<name>[\w-]+):", line.text) if conda else None
        if heading is not None:
            section = heading["name"]
            continue
        if conda and (section in ("channels", "source", "about", "extra") or "-" not in line.text):
            continue
        yield from _line(line, ctx)


def _line(line: _lines.Line, ctx: Context) -> Iterator[Required]:
    match = _REQUIREMENT.match(line.text)
    if (
        match is not None
        and "://" not in line.text[: match.end() + 3]
        and "::" not in line.text[match.end("name") :]
    ):
        yield Required(match["name"], line.span(match, "name"))
        return
    wheel = _WHEEL.search(line.text)
    if wheel is not None:
        yield Required(wheel["name"], line.span(wheel, "name"), source=True)
        return
    address = _SOURCE.search(line.text)
    if address is not None and not line.text.lstrip().startswith("--"):
        yield Required(address["name"], line.span(address, "name"), source=True)


def _sections(ctx: Context) -> Iterator[Required]:
    """pyproject.toml, pixi.toml, Pipfile, setup.cfg, tox.ini."""
    section = key = ""
    for line in _lines.lines(ctx.text):
        header = _HEADER.match(line.text)
        if header is not None and not line.text.rstrip().endswith(","):
            section, key = header["name"].strip().strip("\"'"), ""
            continue
        assigned = _KEY.match(line.text)
        if assigned is not None:
            key = assigned["name"]
            if _TABLES.fullmatch(section):
                yield Required(key, line.span(assigned, "name"))
                continue
        if _holds(section, key, ctx):
            for found in _values(line, assigned, ctx):
                yield replace(found, extra=section in _EXTRAS)


def _holds(section: str, key: str, ctx: Context) -> bool:
    """Whether the values of a key are requirements."""
    if _LISTS.fullmatch(section) or section in _EXTRAS:
        return True
    if _ENVIRONMENT.fullmatch(section):
        return key in ("dependencies", "extra-dependencies", "deps")
    return key in _KEYS.get(section, ())


def _values(line: _lines.Line, assigned: re.Match[str] | None, ctx: Context) -> Iterator[Required]:
    if ctx.kind is Kind.TOML:
        for match in _QUOTED.finditer(line.text):
            yield Required(match["name"], line.span(match, "name"))
        return
    start = assigned.end() if assigned is not None else 0
    found = _REQUIREMENT.match(line.text[start:])
    if found is not None:
        yield Required(
            found["name"],
            Span(line.start + start + found.start("name"), line.start + start + found.end("name")),
        )


def _installed(ctx: Context) -> Iterator[Required]:
    """What commands install."""
    for line in _commands.commands(ctx):
        for match in _INSTALL.finditer(line.text):
            start = line.start + match.start("rest")
            for word in _WORD.finditer(match["rest"]):
                yield Required(word["name"], Span(start + word.start("name"), start + word.end("name")))
            for address in (*_WHEEL.finditer(match["rest"]), *_SOURCE.finditer(match["rest"])):
                span = Span(start + address.start("name"), start + address.end("name"))
                if not address["name"].endswith((".html", ".txt", ".json")):
                    yield Required(address["name"], span, source=True)
        if _WHEEL_IN_VARIABLE.match(line.text):
            for wheel in _WHEEL.finditer(line.text):
                yield Required(wheel["name"], line.span(wheel, "name"), source=True)
        if "git clone" in line.text or "git submodule" in line.text:
            for address in _SOURCE.finditer(line.text):
                yield Required(address["name"], line.span(address, "name"), source=True)


def strings(value: ast.expr, node: ast.AST, ctx: Context) -> Iterator[ast.Constant]:
    """The strings of an expression, and of what the file assigns to the names in it."""
    values = _index.of(node, ctx).values
    todo, seen = [value], set()
    while todo:
        for item in walk(todo.pop()):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item
            elif isinstance(item, ast.Name) and item.id not in seen:
                seen.add(item.id)
                todo += values.get(item.id, [])
