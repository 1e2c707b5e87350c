"""The packages that a file asks to be installed, each with its version and place."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from portkit import manifests, tables
from portkit.scopes import Bound, Tree, walk
from portkit.source import Kind, Source


class Requirement(NamedTuple):
    """A package that is asked for."""

    name: str  # normalised: lower case, hyphens
    spec: str  # "==1.2", ">=2", a URL, or "" for any version
    line: int
    cell: int | None = None


_SPEC = re.compile(
    r"""^\s*(?:[\w.-]+::)?(?P<name>[A-Za-z0-9][\w.-]*?)\s*(?:\[[^\]]*\])?\s*
        (?P<spec>(?:(?:===|[=<>!~]=|=|<|>)\s*[\w.*+!-]+(?:\s*,\s*)?)*|@\s*\S+)\s*(?:;.*)?$""",
    re.VERBOSE,
)
_EGG = re.compile(r"[#&]egg=(?P<name>[A-Za-z][\w.-]*)")
_REPOSITORY = re.compile(r"/(?P<name>[\w.-]+?)(?:\.git)?(?:@[^/#]*)?/?(?:#.*)?$")
_INSTALL = re.compile(
    r"(?:^|[\s;&|!%(])(?:(?:python[\d.]*|\$?\w+)\s+-m\s+)?"
    r"(?P<tool>(?:uv\s+)?pip[\d.]*|uv|poetry|conda|mamba|micromamba)\s+(?:install|add)\s+(?P<rest>[^\n;&|]*)"
)
_SUBSTITUTED = re.compile(r"\$\((?:[^()\n]|\([^()\n]*\))*\)")  # $(command)
# no command, or one that only speaks
_SAID = re.compile(r"\s*(?:#|(?:RUN\s+|-\s+|run:\s+)?(?:echo|printf)\b)")
_WITH_VALUE = (  # options whose next word is no package
    *("-r", "--requirement", "-c", "--constraint", "-f", "--find-links", "-i", "--index-url", "--index"),
    *("--extra-index-url", "-t", "--target", "-e", "--editable", "--channel", "-n", "--name", "-p"),
    *("--prefix", "--python", "--platform", "--trusted-host", "--file", "--root", "--python-version"),
    *("--index-strategy", "--progress-bar", "--use-feature", "--no-binary", "--only-binary", "--cache-dir"),
    *("--timeout", "--default-timeout", "--retries", "--log", "--src", "--global-option", "--build-option"),
    *("--config-settings", "-C", "--override", "--resolution", "--torch-backend", "--group", "--extra"),
)
_KEYWORDS = ("install_requires", "extras_require", "setup_requires", "tests_require")
_READERS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "pyproject.toml": manifests.of_pyproject,
    "pixi.toml": manifests.of_pixi,
    "Pipfile": manifests.of_pipfile,
    "setup.cfg": manifests.of_setup_cfg,
}
_HEADER = re.compile(r"^(?P<key>[\w-]+)\s*:")


def _repositories() -> Mapping[str, str]:
    """Repositories that are called otherwise than the package in them."""
    known: Mapping[str, str] = tables.load("packages")["repositories"]
    return known


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(spec: str) -> str | None:
    """The version that a specifier demands, if it is exactly one."""
    match = re.fullmatch(r"={1,3}\s*(v?\d[\w.+!-]*)(?:=\S+)?", spec.strip())
    return match[1] if match else None


def of_source(source: Source) -> list[Requirement]:
    """What a file that is no Python (or the shell lines of a notebook) asks for."""
    if source.kind is Kind.REQUIREMENTS:
        conda = source.path.endswith((".yml", ".yaml"))
        return list(_conda(source.text) if conda else _listed(source.text))
    reader = _READERS.get(PurePosixPath(source.path).name)
    if reader is not None:
        return list(_placed(reader(source.text), source.text))
    if source.kind in (Kind.SHELL, Kind.DOCKERFILE, Kind.YAML):
        return list(_installed(source.text, None)) if "install" in source.text else []
    if source.kind is Kind.NOTEBOOK:
        units = [unit for unit in source.units if "install" in unit.text]
        return [item for unit in units for item in _installed(_shell_lines(unit.text), unit.cell)]
    return []


def of_setup(tree: Tree) -> Iterator[Requirement]:
    """What `setup(install_requires=[...])` asks for."""
    for node in tree.wanted:
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg in _KEYWORDS:
                value = _behind(keyword.value, tree)
                for part in value.values if isinstance(value, ast.Dict) else [value]:
                    yield from _strings(_behind(part, tree))


def _strings(value: ast.expr) -> Iterator[Requirement]:
    for item in walk(value):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield from _one(item.value, item.lineno)


def _behind(value: ast.expr, tree: Tree) -> ast.expr:
    """A list that stands in a variable of its own."""
    if isinstance(value, ast.Name):
        values = [item.value for item in tree.bindings(value.id, value) if item.how is Bound.VALUE]
        if len(values) == 1 and values[0] is not None:
            return values[0]
    return value


def _one(text: str, line: int, cell: int | None = None) -> Iterator[Requirement]:
    """The requirement that a piece of text is, if it is one."""
    text = text.strip().strip("'\"")
    if text.startswith("-"):
        return
    if "://" in text and not _named_url(text):
        match = _EGG.search(text) or _REPOSITORY.search(text)
        if (
            match
            and text.startswith(("git+", "hg+", "http"))
            and not text.endswith((".whl", ".txt", ".html"))
        ):
            name = normal(match["name"])
            yield Requirement(_repositories().get(name, name), f"@ {text}", line, cell)
        return
    match = _SPEC.match(text)
    if match and not text.endswith((".txt", ".whl", ".gz", ".yml", ".yaml", ".in", ".toml", ".cfg", ".")):
        yield Requirement(normal(match["name"]), " ".join(match["spec"].split()).rstrip(","), line, cell)


def _named_url(text: str) -> bool:
    return re.match(r"^[\w.-]+(\[[^\]]*\])?\s*@\s", text) is not None


def _listed(text: str) -> Iterator[Requirement]:
    """requirements.txt."""
    for number, line in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(?:^|\s)#.*", "", line).split(" --hash")[0].rstrip("\\ \t")
        if line.startswith(("-e ", "--editable ")):
            line = line.partition(" ")[2]
        if line and not line.lstrip().startswith("-"):
            yield from _one(line, number)


def _conda(text: str) -> Iterator[Requirement]:
    """environment.yml: what is listed under `dependencies`, and under its `pip`."""
    key = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        key = header["key"] if header else key
        body = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if key == "dependencies" and body.startswith("- ") and not body.endswith(":"):
            body = body[2:].strip().removeprefix("-e ")
            yield from _one(_without_build(body), number)


def _without_build(text: str) -> str:
    """`torch=2.1=py3.10_cuda` → `torch=2.1`; the build says nothing that a version does."""
    parts = text.split("=")
    return "=".join(parts[:2]) if len(parts) == 3 and parts[1] else text


def _placed(items: Iterable[str], text: str) -> Iterator[Requirement]:
    """Requirements with the lines of a text in which they stand."""
    lines = text.splitlines()
    for item in items:
        for found in _one(item, 0):
            word = re.split(r"[\s\[=<>!~@;(]", item.strip(), maxsplit=1)[0]
            whole = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])")
            key = re.compile(rf"\s*[\"']?{re.escape(word)}[\"']?\s*=")
            exact = re.compile(re.escape(item))
            tests: tuple[Callable[[str], object], ...] = (exact.search, key.match, whole.search)
            places = (n for test in tests for n, line in enumerate(lines, start=1) if test(line))
            yield found._replace(line=next(places, 1))


def _shell_lines(text: str) -> str:
    """A cell with everything blanked that is no shell line: `!pip ...`, `%pip ...`, `%%bash`."""
    if text.lstrip().startswith("%%"):
        return text
    return "\n".join(line if line.lstrip()[:1] in ("!", "%") else "" for line in text.splitlines())


def _installed(text: str, cell: int | None) -> Iterator[Requirement]:
    """`pip install a b==1`, in shell scripts, Dockerfiles and workflows."""
    joined = re.sub(r"\\[ \t]*\r?\n", lambda match: " " * len(match[0]), text)
    joined = _SUBSTITUTED.sub(lambda match: "$" + " " * (len(match[0]) - 1), joined)
    for match in _INSTALL.finditer(joined):
        before = max(joined.rfind(end, 0, match.start("tool")) for end in "\n;&|")
        if _SAID.match(joined, before + 1, match.start("tool")):
            continue
        start = match.start("rest")
        for word in _arguments(match["rest"]):
            place = text.find(word, start)  # a continuation was blanked: lines count in the text as it is
            yield from _one(word, text.count("\n", 0, start if place < 0 else place) + 1, cell)


def _arguments(rest: str) -> Iterator[str]:
    """The words of a command that may be packages."""
    skip = False
    for word in _words(re.sub(r"\s#.*", "", rest)):
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_VALUE
            continue
        path = "/" in word.partition("@")[0].split("+")[-1].replace("://", "")
        if ("$" in word or path) and not word.startswith(("git+", "http")):
            continue
        if word in (".", "..") or word.startswith((".", ">", "<", "{")):
            continue
        yield word


def _words(text: str) -> Iterable[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.replace('"', " ").replace("'", " ").split()
