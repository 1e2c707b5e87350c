"""APIs of the project's own that need CUDA."""

from __future__ import annotations

import ast
import copyreg
import re
import types
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from portkit.finding import Finding, Phase, Span, Support
from portkit.rewriters import _apis, _references, _sites
from portkit.rule import Context, Rule
from portkit.source import Kind

_REQUIRED = re.compile(r"^[ \t]*(?:-[ \t]*)?[\"']?(?P<name>[A-Za-z][\w.-]*)", re.MULTILINE)
_QUOTED = re.compile(r"[\"'](?P<name>[A-Za-z][\w.-]*)[^\"'\n]*[\"']")


class _Configurable(type):
    """The type of a rule that is made for a project; it can be sent to other processes."""


class InHouseApi(_references.ReferenceRule, metaclass=_Configurable):
    """A function or package of the project's own is used that needs CUDA.

    What: the names, and imports and calls of the packages, in the TOML files that `apis` in the settings
    names; requirements of those packages.
    Why: portkit knows torch and public libraries; only the project knows its own.
    Instead: what the table says: `to` (the same arguments, the same meaning), `review` (something differs:
    its note says what), `manual` (what a person must do), `portable` (nothing to do), and for each package
    under `libraries` what to use instead:

        [to]
        "acme.gpu.wait" = "pk.synchronize"
        [review]
        "acme.gpu.pool" = { to = "acme.host.pool", note = "It is not shared between processes." }
        [manual]
        "acme.gpu.peers" = "Ask the platform team."
        [libraries.acme_kernels]
        what = "our fused kernels"
        instead = "Use acme.reference."
        requirements = ["acme-kernels"]

    Safety: as good as the table. Names after `to` are imported; nothing is checked against the packages.
    """

    id = "PK390"
    name = "in_house_api"
    phase = Phase.FULL_MODEL
    triggers: ClassVar[tuple[bytes, ...]] = ()
    text_kinds = frozenset({Kind.REQUIREMENTS, Kind.TOML})
    what = "{name} is in the project's table of APIs"
    files: ClassVar[tuple[Path, ...]] = ()
    apis: ClassVar[_apis.Apis] = _apis.Apis()

    def __init_subclass__(cls) -> None:
        """A project's rule names its files, or a folder that holds them."""
        folder = getattr(cls, "folder", None)
        cls.files = tuple(sorted(folder.glob("*.toml"))) if folder is not None else cls.files
        cls.apis = _apis.read(cls.files)
        cls.triggers = cls.apis.triggers()

    @classmethod
    def configured(cls, apis: tuple[Path, ...]) -> type[Rule]:
        """The rule that knows these tables.  Raises ConfigError for one that is wrong."""
        return _made(apis, tuple(_state(file) for file in apis)) if apis else cls

    @classmethod
    def facts(cls) -> str:
        return repr(cls.apis) if cls.files else ""

    def section(self) -> dict[str, Any]:
        return dict(self.apis.names)

    def whole(self, node: ast.expr, ctx: Context, name: str) -> bool:
        parent = ctx.parent(node)
        return not isinstance(parent, ast.Attribute) or not self.handles(f"{name}.{parent.attr}")

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        for item in node.names:
            yield from self._imported(node, item.name, ctx)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        if node.level or node.module is None:
            return
        for item in node.names:
            found = list(self._imported(node, f"{node.module}.{item.name}", ctx))
            yield from found
            if found:
                return  # one finding a statement

    def _imported(self, node: ast.stmt, name: str, ctx: Context) -> Iterator[Finding]:
        library = self.apis.library(name)
        if library is None or self.handles(name):
            return
        guarded = _sites.in_import_guard(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{library.package} needs CUDA: {library.what}",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="The program goes on without it." if guarded else library.instead,
            phase=Phase.OPERATOR,
            qualified_name=name,
        )

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        name = ctx.resolve(node.func)
        library = self.apis.library(name) if name is not None else None
        if name is None or library is None or self.handles(name):
            return
        yield ctx.finding(
            self,
            node,
            f"{name} needs CUDA: it belongs to {library.package} ({library.what})",
            support=Support.MANUAL,
            remedy=library.instead,
            phase=Phase.OPERATOR,
            qualified_name=name,
        )

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        pattern = _REQUIRED if ctx.kind is Kind.REQUIREMENTS else _QUOTED
        asked = {_plain(name): item for item in self.apis.libraries.values() for name in item.requirements}
        for match in pattern.finditer(ctx.text):
            library = asked.get(_plain(match["name"]))
            if library is not None:
                yield ctx.finding(
                    self,
                    Span(*match.span("name")),
                    f"{match['name']} needs CUDA: {library.what}",
                    support=Support.MANUAL,
                    remedy=library.instead,
                )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _state(file: Path) -> tuple[int, int]:
    """What changes when a file does; a file that is not there is told of when it is read."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _made(files: tuple[Path, ...], states: tuple[tuple[int, int], ...]) -> type[InHouseApi]:
    """One class for the same files in the same state, so that two runs have the same rule."""
    facts = {"files": files, "__doc__": InHouseApi.__doc__, "__module__": InHouseApi.__module__}
    made: type[InHouseApi] = types.new_class("InHouseApi", (InHouseApi,), {}, lambda body: body.update(facts))
    return made


def _reduce(rule: type[InHouseApi]) -> Any:
    return (InHouseApi.configured, (rule.files,)) if rule.files else rule.__name__


copyreg.pickle(_Configurable, _reduce)  # type: ignore[arg-type]
