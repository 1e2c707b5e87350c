"""What the scan half passes around: findings, where they are, and the edits that would mend them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Phase(str, Enum):
    """The migration phase that a finding belongs to; each phase includes those before it."""

    OPERATOR = "operator"
    MODULE = "module"
    FULL_MODEL = "full-model"

    @property
    def rank(self) -> int:
        return list(Phase).index(self)

    def includes(self, other: Phase) -> bool:
        """Whether migrating to this phase also carries out `other`."""
        return other.rank <= self.rank


class Support(str, Enum):
    """How a finding can be resolved."""

    PORTABLE = "portable"  # already fine: counted, not touched
    AUTO = "auto"  # a rewrite that is safe
    REVIEW = "review"  # a rewrite that changes behaviour somewhere: applied with --unsafe
    MANUAL = "manual"  # no rewrite: a person must act
    UNKNOWN = "unknown"  # not even sure that it is a dependency


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range [start, end) of characters in the decoded text of one unit of a source.

    A unit is the whole file, or one code cell of a notebook.
    """

    start: int
    end: int


@dataclass(frozen=True, order=True)
class Location:
    """Where a finding is.  Lines and columns (in characters) count from 1; `end_column` is exclusive."""

    path: str  # relative to the scanned root, with forward slashes
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None  # index of the code cell, for notebooks; lines then count inside the cell

    def __str__(self) -> str:
        where = f"{self.path}#{self.cell}" if self.cell is not None else self.path
        return f"{where}:{self.line}:{self.column}"


class GuardKind(str, Enum):
    """What the condition asks for under which a site stands."""

    AVAILABILITY = "availability"  # whether there is CUDA (or another accelerator), or whether to use it
    DEVICE = "device"  # whether a tensor or device is on CUDA
    IMPORT = "import"  # whether an optional import worked


@dataclass(frozen=True)
class Guard:
    """A condition that a site stands under."""

    kind: GuardKind
    text: str  # the condition as source, negated where the other branch holds the site
    line: int  # of the condition, in the same file or cell


@dataclass(frozen=True)
class Alias:
    """One step from a name as it is written to what it means: the statement that gave it its meaning."""

    name: str  # "F"
    via: str  # "import torch.nn.functional as F"
    line: int
    path: str | None = None  # the file of that statement, where it is another one


@dataclass(frozen=True)
class Effort:
    """How long a person needs for one finding, and where that figure is from."""

    minutes: int
    basis: str  # "rule PK315, manual"


# --- edits: what a rewrite wants, in terms of the nodes that the rule saw -------------------------
#
# Every `span` is that of an `ast` node (or, in other kinds of file, of a piece of text).  Edits of one
# finding are applied together or not at all; edits of two findings that overlap wait for the next round.


@dataclass(frozen=True)
class Replace:
    """Replace the source of one expression (or piece of text) by `text`.

    `text` must be a complete expression; the applier adds parentheses where precedence needs them.
    """

    span: Span
    text: str


@dataclass(frozen=True)
class RenameAttribute:
    """Change the last name of an attribute access: `x.cuda` → `x.to`; whatever `x` is stays untouched."""

    span: Span  # of the Attribute node
    name: str


@dataclass(frozen=True)
class SetArgument:
    """Give a call the keyword argument `keyword=text`: replace its value if there is one, else append it."""

    span: Span  # of the Call node
    keyword: str
    text: str


@dataclass(frozen=True)
class InsertArgument:
    """Insert a positional argument before position `index`."""

    span: Span  # of the Call node
    index: int
    text: str


@dataclass(frozen=True)
class NameArgument:
    """Turn the positional argument at `index` into the keyword argument `keyword`."""

    span: Span  # of the Call node
    index: int
    keyword: str


@dataclass(frozen=True)
class RenameKeyword:
    """Rename the keyword of an argument."""

    span: Span  # of the Call node
    old: str
    new: str


@dataclass(frozen=True)
class DropArgument:
    """Remove an argument, by position or by keyword."""

    span: Span  # of the Call node
    index: int | None = None
    keyword: str | None = None


@dataclass(frozen=True)
class DropStatement:
    """Remove a whole statement; `pass` takes its place where a body would be left empty."""

    span: Span  # of the statement


@dataclass(frozen=True)
class Wrap:
    """Put text before and after an expression that itself stays as it is."""

    span: Span
    before: str
    after: str


@dataclass(frozen=True)
class CallDecorator:
    """Give a bare decorator (`@f`) its parentheses and arguments (`@f(arguments)`)."""

    span: Span  # of the decorator expression
    text: str  # the whole new expression


@dataclass(frozen=True)
class NeedImport:
    """The edited code uses `import module as alias` (or `from module import name as alias`)."""

    module: str
    name: str | None = None
    alias: str | None = None


@dataclass(frozen=True)
class DropImport:
    """Remove the import that bound `local` if nothing uses it any more."""

    local: str


Edit = (
    Replace
    | RenameAttribute
    | SetArgument
    | InsertArgument
    | NameArgument
    | RenameKeyword
    | DropArgument
    | DropStatement
    | Wrap
    | CallDecorator
    | NeedImport
    | DropImport
)


@dataclass(frozen=True)
class Finding:
    """One CUDA dependency, at one place."""

    rule: str  # "PK101"
    phase: Phase
    support: Support
    location: Location
    message: str  # what is wrong, one sentence
    remedy: str  # what to do, or what the rewrite does
    qualified_name: str | None = None  # "torch.cuda.amp.autocast"
    scope: str = ""  # "Trainer.step", "" at module level
    guard: str | None = None  # the innermost condition that the site stands under, as source
    guard_kind: GuardKind | None = None
    guard_line: int | None = None  # where that condition is, in the same file or cell
    snippet: str = ""  # the source line or lines, stripped and joined
    note: str = ""  # behaviour that differs somewhere after the rewrite (support "review")
    edits: tuple[Edit, ...] = field(default=(), compare=False)
    needs: tuple[tuple[Location, str], ...] = field(default=(), compare=False)  # may not be mended without
    lossy: bool = False  # the scan saw only part of what matters (dynamic, star import, computed name)
    aliases: tuple[Alias, ...] = ()  # how the written name comes to mean `qualified_name`
    import_time: bool = False  # whether the site runs when its module is imported
    effort: Effort = Effort(0, "")
    group: str = ""  # findings of one rule and file with the same group are told as one
    others: tuple[tuple[str, int], ...] = ()  # scope and line of each place after the first of a group
    key: str = ""  # what of the source tells this site from others in its scope, whatever its format
    id: str = ""  # stable across line moves; set by the engine

    @property
    def sort_key(self) -> tuple[Location, str]:
        return (self.location, self.rule)

    @property
    def occurrences(self) -> int:
        """How many places this finding stands for."""
        return 1 + len(self.others)


@dataclass(frozen=True)
class Suppressed:
    """A finding that a comment in the code takes out of the report, and what the comment says of it."""

    finding: Finding
    reason: str  # the text behind `# portkit: ignore[...]`; empty if there is none


@dataclass(frozen=True)
class Unparsed:
    """A file that could not be read or parsed, and why.  Never counted as converted."""

    path: str
    reason: str
    line: int | None = None
    column: int | None = None
