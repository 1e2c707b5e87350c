"""Edits → new text.  Only what the edits name changes; a result that does not compile is never given back."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from portkit.applying import imports, sound
from portkit.applying.arguments import ArgumentEdit, edit_arguments
from portkit.applying.expressions import rename_attribute, replace_expression, wrap
from portkit.applying.patch import Patch, Taken, carry_out, check_order, replace, unchanged
from portkit.applying.statements import bodies, drop_statements
from portkit.applying.tree import Tree
from portkit.errors import ApplyError
from portkit.finding import (
    CallDecorator,
    DropArgument,
    DropImport,
    DropStatement,
    Edit,
    Finding,
    InsertArgument,
    NameArgument,
    NeedImport,
    RenameAttribute,
    RenameKeyword,
    Replace,
    SetArgument,
    Span,
    Wrap,
)


@dataclass(frozen=True)
class Step:
    """Patches of one text, carried out together; the next step is for the text that they give."""

    patches: tuple[Patch, ...]
    owners: tuple[Finding, ...] = ()  # of each patch; none for imports
    imports: str = ""  # "+name" or "-name": the import that it adds or removes
    cell: int | None = None


@dataclass(frozen=True)
class Applied:
    """What became of the findings of one text."""

    text: str
    masked: str  # what was parsed: `text`, unless lines of it were masked
    done: list[Finding] = field(default_factory=list)
    deferred: list[Finding] = field(default_factory=list)  # overlap with one that is done: next round
    refused: list[tuple[Finding, str]] = field(default_factory=list)
    steps: tuple[Step, ...] = ()  # from the text before to `text`


@dataclass(frozen=True)
class _Plan:
    """One finding, lowered to patches of the text."""

    finding: Finding
    patches: tuple[Patch, ...]
    claims: frozenset[object]  # calls and bodies that it changes: no other finding may, in the same round
    needs: tuple[NeedImport, ...]
    drops: tuple[DropImport, ...]

    @property
    def replacements(self) -> list[Patch]:
        """The patches that put one expression in the place of another."""
        spans = {edit.span for edit in self.finding.edits if isinstance(edit, Replace | CallDecorator)}
        return [
            patch
            for patch in self.patches
            if not patch.is_insertion and patch.text.strip() and Span(patch.start, patch.end) in spans
        ]


def apply(
    text: str, findings: Sequence[Finding], *, python: bool, raw: str | None = None, init: bool = False
) -> Applied:
    """Carry out the edits of findings, all of one finding or none.

    `python` says whether `text` is Python (a file or a notebook cell); other texts take only `Replace` and
    `Wrap` at exact spans.  `raw` is a text of the same length to write instead of `text`, where some lines
    were masked to make Python of a notebook cell.  `init` says that the text is an `__init__.py`.
    """
    ready = sorted((f for f in findings if f.edits), key=lambda finding: finding.sort_key)
    if python:
        return _Python(text, raw if raw is not None else text, init).apply(ready)
    return _apply_text(text, ready)


def _select(
    findings: Iterable[Finding], lower: Callable[[Finding], _Plan]
) -> tuple[list[_Plan], list[Finding], list[tuple[Finding, str]]]:
    """Lower findings one after the other; what conflicts with one before it waits."""
    chosen: list[_Plan] = []
    deferred: list[Finding] = []
    refused: list[tuple[Finding, str]] = []
    claimed: set[object] = set()
    taken = Taken()
    for finding in findings:
        try:
            plan = lower(finding)
        except ApplyError as error:
            refused.append((finding, error.message))
            continue
        except (RecursionError, MemoryError):
            refused.append((finding, "the code is nested too deeply"))
            continue
        if plan.claims & claimed or any(taken.conflicts(patch) for patch in plan.patches):
            deferred.append(finding)
            continue
        chosen.append(plan)
        claimed |= plan.claims
        for patch in plan.patches:
            taken.add(patch)
    return chosen, deferred, refused


# --- other texts ----------------------------------------------------------------------------------


def _lower_text(finding: Finding) -> _Plan:
    patches: list[Patch] = []
    for edit in finding.edits:
        if isinstance(edit, Replace | DropStatement):
            patches.append(replace(edit.span.start, edit.span.end, getattr(edit, "text", "")))
        elif isinstance(edit, Wrap):
            start, end = edit.span.start, edit.span.end
            patches += [replace(start, start, edit.before), replace(end, end, edit.after)]
        else:
            raise ApplyError(f"{type(edit).__name__} is only for Python")
    patches.sort()
    check_order(patches)
    return _Plan(finding, tuple(patches), frozenset(), (), ())


def _apply_text(text: str, findings: Sequence[Finding]) -> Applied:
    chosen, deferred, refused = _select(findings, _lower_text)
    inside = [plan for plan in chosen if all(0 <= p.start <= p.end <= len(text) for p in plan.patches)]
    refused += [(plan.finding, "the place is outside the file") for plan in chosen if plan not in inside]
    new = carry_out(text, [patch for plan in inside for patch in plan.patches])
    steps = (_step(inside),) if inside else ()
    return Applied(new, new, [plan.finding for plan in inside], deferred, refused, steps)


def _step(plans: Sequence[_Plan]) -> Step:
    """The patches of some plans, in order, with their findings."""
    pairs = sorted(
        ((patch, plan.finding) for plan in plans for patch in plan.patches), key=lambda pair: pair[0]
    )
    return Step(tuple(patch for patch, _ in pairs), tuple(finding for _, finding in pairs))


# --- Python ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Built:
    """A text with some plans carried out: as it is parsed, as it is written, and how it came about."""

    text: str
    raw: str
    steps: tuple[Step, ...] = ()


class _Python:
    """One Python text and what is done to it."""

    def __init__(self, text: str, raw: str, init: bool) -> None:
        self.text = text
        self.raw = raw
        self.init = init
        self.module = ast.Module([], [])
        self.built = _Built(text, raw)  # with everything that is accepted

    def apply(self, findings: Sequence[Finding]) -> Applied:
        if not findings:
            return Applied(self.raw, self.text)
        try:
            tree = Tree(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Applied(
                self.raw, self.text, refused=[(f, f"the file can't be parsed ({error})") for f in findings]
            )
        self.module = tree.module
        chosen, deferred, refused = _select(findings, lambda finding: _lower(tree, finding))
        accepted: list[_Plan] = []
        self._settle(chosen, accepted, deferred, refused)
        accepted.sort(key=lambda plan: plan.finding.sort_key)
        built = self.built if accepted else _Built(self.text, self.raw)
        done = [plan.finding for plan in accepted]
        return Applied(built.raw, built.text, done, deferred, refused, built.steps)

    def _settle(
        self,
        group: Sequence[_Plan],
        accepted: list[_Plan],
        deferred: list[Finding],
        refused: list[tuple[Finding, str]],
    ) -> None:
        """Accept what gives a sound text with what is accepted; halve the group where it does not."""
        if not group:
            return
        try:
            self.built = self.build([*accepted, *group])
        except ApplyError as error:
            if len(group) > 1:
                half = len(group) // 2
                self._settle(group[:half], accepted, deferred, refused)
                self._settle(group[half:], accepted, deferred, refused)
            elif accepted and self._is_sound(group):
                deferred.append(group[0].finding)
            else:
                refused.append((group[0].finding, error.message))
            return
        accepted.extend(group)

    def _is_sound(self, plans: Sequence[_Plan]) -> bool:
        try:
            self.build(plans)
        except ApplyError:
            return False
        return True

    def build(self, plans: Sequence[_Plan]) -> _Built:
        """The text after some plans.  Raises ApplyError if they are not sound."""
        steps = [_step(plans)]
        patches = steps[0].patches
        text, raw = self._step(self.text, self.raw, patches)
        module = sound.parse_result(text)
        replacements = {patch for plan in plans for patch in plan.replacements}
        sound.check_replacements(module, text, patches, replacements)
        needs = [need for plan in plans for need in plan.needs]
        drops = [drop for plan in plans for drop in plan.drops]
        if needs or drops:
            for what, more in imports.settled(text, needs, drops, init=self.init):
                text, raw = self._step(text, raw, more)
                steps.append(Step(tuple(more), imports=what))
                module = sound.parse_result(text)
        sound.check_compiles(module, self.module)
        return _Built(text, raw, tuple(steps))

    def _step(self, text: str, raw: str, patches: Sequence[Patch]) -> tuple[str, str]:
        """Apply patches to both texts, and check that nothing else changed."""
        new, new_raw = carry_out(text, patches), carry_out(raw, patches)
        masked = raw is not text and any(text[p.start : p.end] != raw[p.start : p.end] for p in patches)
        if masked:
            raise ApplyError("the rewrite would touch a magic command")
        if not unchanged(text, new, patches) or not unchanged(raw, new_raw, patches):
            raise ApplyError("the rewrite would change more than it names")
        return new, new_raw


def _lower(tree: Tree, finding: Finding) -> _Plan:
    """The patches of one finding.  Raises ApplyError where an edit does not fit the text."""
    patches: list[Patch] = []
    claims: set[object] = set()
    calls: dict[Span, list[ArgumentEdit]] = {}
    statements: list[Span] = []
    needs: list[NeedImport] = []
    drops: list[DropImport] = []
    for edit in finding.edits:
        if isinstance(edit, NeedImport):
            needs.append(edit)
        elif isinstance(edit, DropImport):
            drops.append(edit)
        elif isinstance(edit, DropStatement):
            statements.append(edit.span)
        elif isinstance(edit, SetArgument | InsertArgument | NameArgument | RenameKeyword | DropArgument):
            calls.setdefault(edit.span, []).append(edit)
        else:
            patches += _lower_expression(tree, edit)
        claims |= _claims(tree, edit)
    for span, edits in calls.items():
        patches += edit_arguments(tree, span, edits)
    if statements:
        patches += drop_statements(tree.module, tree.lines, statements)
    patches.sort()
    check_order(patches)
    return _Plan(finding, tuple(patches), frozenset(claims), tuple(needs), tuple(drops))


def _lower_expression(tree: Tree, edit: Replace | RenameAttribute | Wrap | CallDecorator) -> list[Patch]:
    if isinstance(edit, RenameAttribute):
        return rename_attribute(tree, edit)
    if isinstance(edit, Wrap):
        return wrap(tree, edit)
    return replace_expression(tree, edit)


def _claims(tree: Tree, edit: Edit) -> set[object]:
    """What an edit must have for itself: the call that it changes, or the body that it takes from."""
    if isinstance(edit, NeedImport | DropImport):
        return set()
    if isinstance(edit, DropStatement):
        return {
            ("body", id(holder))
            for holder, body in bodies(tree.module)
            if any(tree.lines.span(node) == edit.span for node in body)
        }
    if isinstance(edit, Replace | RenameAttribute):
        return {("call", tree.callee(edit.span) or edit.span)}
    return {("call", edit.span)}
