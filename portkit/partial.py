"""Undo of a part: which edits a user means by a phase, a rule or a file, and carrying that out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from portkit import manifest, ruleset
from portkit.errors import PortkitError, UsageError
from portkit.files import write_atomically
from portkit.finding import Phase, Unparsed
from portkit.manifest import EditRecord, FileRecord, Manifest
from portkit.undo import Undone, leads_out
from portkit.withdraw import Edits, History, Refused, Withdrawn, withdraw

_RULE = re.compile(r"[A-Za-z]{2,}\d+")
_SHOWN = 5  # places in a message


@dataclass(frozen=True)
class Choice:
    """Edits of one of the phases, by one of the rules, in one of the files; what is empty means any."""

    phases: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()  # ids, or beginnings of ids
    files: tuple[str, ...] = ()  # files and folders, relative to the root

    def is_everything(self) -> bool:
        """Whether nothing in particular was chosen."""
        return not (self.phases or self.rules or self.files)

    def takes(self, path: str, edit: EditRecord) -> bool:
        """Whether an edit is meant."""
        return (
            (not self.phases or edit.phase in self.phases)
            and (not self.rules or edit.rule.upper().startswith(self.rules))
            and self.takes_file(path)
        )

    def takes_file(self, path: str) -> bool:
        """Whether a file is meant, as far as files were named."""
        names = {path, *(str(parent) for parent in PurePosixPath(path).parents)}
        return not self.files or not names.isdisjoint(self.files)


def choice(words: Sequence[str]) -> tuple[Path, Choice]:
    """The root and the choice that the words of the command line mean.

    Raises UsageError for a word that is no phase, no rule and no path.
    """
    if not words:
        return Path(), Choice()
    phases = frozenset(word for word in words if word in {phase.value for phase in Phase})
    rules = tuple(_rule_names().get(word, word.upper()) for word in words if _is_rule(word))
    paths = [Path(word) for word in words if word not in phases and not _is_rule(word)]
    roots = [path for path in paths if manifest.exists(path)]
    for path in paths:
        if not path.exists() and not path.is_symlink() and not _recorded(path):
            raise UsageError(
                "There is no such folder, file, phase or rule.",
                place=str(path),
                remedy=f"Phases: {', '.join(phase.value for phase in Phase)}.",
            )
    if len(roots) > 1:
        raise UsageError("Two migrated folders are named.", remedy="Undo one at a time.")
    others = [path for path in paths if path not in roots]
    root = roots[0] if roots else _above(others[0] if others else Path())
    if root is None:  # the caller says that nothing is recorded there
        return (others[0] if others else Path()), Choice(phases, rules)
    return root, Choice(phases, rules, tuple(_below(path, root) for path in others))


def _is_rule(word: str) -> bool:
    known = _RULE.fullmatch(word) is not None or word in _rule_names()
    return known and not Path(word).exists()


def _rule_names() -> dict[str, str]:
    """Name of a rule → its id."""
    return {rule.name: rule.id for rule in ruleset.documented()}


def _recorded(path: Path) -> bool:
    """Whether a file that is gone is one that a migration changed."""
    root = _above(path)
    if root is None:
        return False
    name = _below(path, root)
    return any(file.path == name for run in manifest.read(root).runs for file in run.files)


def _above(path: Path) -> Path | None:
    """The nearest migrated folder at or above a path, spelled from the current folder where it can be."""
    here = path.absolute()
    return next((place for place in (here, *here.parents) if manifest.exists(place)), None)


def _below(path: Path, root: Path) -> str:
    try:
        return path.absolute().relative_to(root.absolute()).as_posix()
    except ValueError:
        raise UsageError(
            "This is not in the migrated folder.", place=str(path), remedy=f"It is {root}."
        ) from None


# --- carrying it out ------------------------------------------------------------------------------------


def undo_part(root: Path, chosen: Choice) -> Undone:
    """Take the chosen edits back, in all files or in none.

    Raises UsageError where there are none, where others stand on them, or where the user changed the lines
    since; and ManifestError if the record is damaged.
    """
    record = manifest.read(root)
    plans: dict[str, Withdrawn] = {}
    refused: list[tuple[str, Refused]] = []
    for path, numbers in _records(record).items():
        try:
            plan = _plan(record, path, numbers, chosen)
        except Refused as error:
            refused.append((path, error))
            continue
        if plan is not None:
            plans[path] = plan
    if refused:
        raise _refusal(root, chosen, refused)
    if not plans:
        raise UsageError(
            "No such edit is recorded.",
            place=str(root),
            remedy=f"`portkit status {shlex.quote(str(root))}` shows what is.",
        )
    return _carry_out(record, plans)


def _records(record: Manifest) -> dict[str, list[tuple[int, FileRecord]]]:
    """Path → the records of the file, with the number of their run, oldest first."""
    found: dict[str, list[tuple[int, FileRecord]]] = {}
    for number, run in enumerate(record.runs):
        for file in run.files:
            found.setdefault(file.path, []).append((number, file))
    return found


def _plan(
    record: Manifest, path: str, numbered: Sequence[tuple[int, FileRecord]], chosen: Choice
) -> Withdrawn | None:
    """What becomes of one file; None if nothing of it is meant.  Raises Refused."""
    records = [file for _, file in numbered]
    edits: Edits = frozenset(
        (i, k)
        for i, file in enumerate(records)
        for k, edit in enumerate(file.edits)
        if chosen.takes(path, edit)
    )
    made = records[0].sha256_before is None
    whole = made and chosen.takes_file(path) and not (chosen.rules or chosen.phases)
    if not edits and not whole:
        return None
    file = record.root / path
    if leads_out(record.root, file):
        raise Refused(1, "is a link out of the tree")
    try:
        now = file.read_bytes()
    except OSError as error:
        raise Refused(1, f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    befores = [record.original(r.sha256_before) if r.sha256_before is not None else None for r in records]
    return withdraw(History(path, records, befores, now), edits)


def _refusal(root: Path, chosen: Choice, refused: Sequence[tuple[str, Refused]]) -> UsageError:
    """One error for all places: what stands in the way, and the command that takes that back, too."""
    places = [f"{path}:{error.line}: {error.reason}" for path, error in refused]
    more = [f"and {len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
    rules = sorted({error.rule for _, error in refused if error.rule})
    remedies = ["Nothing was undone."]
    if rules and not all(rule.startswith(chosen.rules) for rule in rules if chosen.rules):
        words = [*sorted(chosen.phases), *sorted({*chosen.rules, *rules}), *chosen.files]
        words = [word for word in words if word not in chosen.phases] if not chosen.rules else words
        remedies.append(f"Take these back as well: {_command(root, words)}.")
    elif rules:
        remedies.append(f"Take back the whole file: {_command(root, [path for path, _ in refused][:1])}.")
    if any(not error.rule for _, error in refused):
        remedies.append("Bring the places that you changed back to what they were, or undo them by hand.")
    return UsageError(
        f"{len(places)} place{'' if len(places) == 1 else 's'} can't be taken back.",
        place=str(root),
        source="\n".join(f"  {line}" for line in [*places[:_SHOWN], *more]),
        remedy=" ".join(remedies),
    )


def _command(root: Path, words: Iterable[str]) -> str:
    return " ".join(["portkit undo", *(shlex.quote(word) for word in [str(root), *words])])


def _carry_out(record: Manifest, plans: dict[str, Withdrawn]) -> Undone:
    done = Undone()
    for plan in plans.values():  # all bytes are kept before the first file is touched
        for data in plan.befores:
            record.keep(data)
    for path, plan in plans.items():
        try:
            _write(record.root / path, plan.now)
        except (PortkitError, OSError) as error:
            reason = error.message if isinstance(error, PortkitError) else (error.strerror or str(error))
            done.failed.append(Unparsed(path, reason.rstrip(".").lower()))
            continue
        (done.restored if plan.now is not None else done.removed).append(path)
        done.edits += plan.edits
        _replace(record, path, plan)
    record.tidy()
    return done


def _write(file: Path, data: bytes | None) -> None:
    if data is None:
        file.unlink()
    else:
        write_atomically(file, data)


def _replace(record: Manifest, path: str, plan: Withdrawn) -> None:
    """Put the new records of a file in the place of the old ones."""
    new: Iterator[FileRecord | None] = iter(plan.records)
    for number, run in enumerate(record.runs):
        files = [next(new) if file.path == path else file for file in run.files]
        record.runs[number] = replace(run, files=tuple(file for file in files if file is not None))
