"""The migrate command behind its options: plan, show or write, and say what is left."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from portkit import config as settings
from portkit import copying, diffs, engine, history, patches, progress, summary, vendoring, writing
from portkit.config import OPERATORS, Config
from portkit.errors import UsageError
from portkit.finding import Finding, Phase, Unparsed
from portkit.interview import Interview
from portkit.migrate import Options, Plan, plan, rewrite
from portkit.rounds import comments
from portkit.source import Kind, Unreadable, load


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    path: str
    phase: str
    mode: str = "diff"  # "diff" | "check" | "write" | "patch"
    output: str = ""
    patch: str = ""
    interactive: bool = False
    annotate: bool = False
    vendor: bool = False
    unsafe: bool = False
    operators: str = ""
    select: Sequence[str] = field(default_factory=list)
    ignore: Sequence[str] = field(default_factory=list)
    config: str = ""
    force: bool = False
    jobs: int = 0
    verbose: bool = False
    strict: bool = False


def mode(
    *, diff: bool, write: bool, check: bool, output: str, patch: str = "", interactive: bool = False
) -> str:
    """The one mode that the options ask for.  Raises UsageError if they ask for two."""
    asked = [
        name for name, on in (("diff", diff), ("check", check), ("write", write), ("patch", patch)) if on
    ]
    if len(asked) > 1 or (output and set(asked) - {"write"}):
        names = " and ".join(f"--{name}" for name in [*asked, *(["output"] if output else [])])
        raise UsageError(f"{names} exclude each other.", remedy="Choose one of them.")
    if output or (interactive and not asked):
        return "write"
    return asked[0] if asked else "diff"


def run(request: Request) -> int:
    """Carry a request out; returns the exit code.  Raises UsageError, ConfigError and ManifestError."""
    options = _options(request)
    if request.path == "-":
        return _run_stdin(request, options)
    show = progress.bar()
    made = plan(request.path, options, jobs=request.jobs or None, progress=show)
    if request.mode == "write" and not (request.output or request.force):
        _refuse_uncommitted(made, one_file=Path(request.path).is_file())
    if request.interactive:
        made, agreed = _ask(request, options)
        if not agreed:
            print("Nothing was written.", file=sys.stderr)
            return 0
    if request.vendor or vendoring.is_vendored(made):
        vendoring.vendor(made, options.config)
    before = _before(made, request)
    failed = _carry_out(made, request)
    if request.mode == "write" and made.changes:
        _remember(made, request, before, failed)
    made.unparsed += failed
    where = summary.Where(request.path, request.output, request.patch)
    for line in summary.lines(made, request.mode, where, verbose=request.verbose):
        print(line, file=sys.stderr)
    return _code(made, request, failed)


def _is_partial(request: Request) -> bool:
    """Whether the options of the call, rather than the settings, say what is looked at."""
    return bool(request.select or request.ignore or request.operators or request.config)


def _findings(made: Plan, request: Request, root: Path, known: list[Finding]) -> list[Finding]:
    """What there is in a tree by its settings: what the plan knows, if it looked at all."""
    if not _is_partial(request):
        return known
    return engine.scan([root], settings.load(root), jobs=request.jobs or None).findings


def _before(made: Plan, request: Request) -> list[Finding] | None:
    """The findings before the first migration that is written; None if there was one, or there is none."""
    root = Path(request.output) if request.output else made.root
    writes = request.mode == "write" and bool(made.changes) and Path(request.path).is_dir()
    if not writes or history.read(root)[0]:
        return None
    return _findings(made, request, made.root, made.found)


def _remember(made: Plan, request: Request, before: list[Finding] | None, failed: Sequence[Unparsed]) -> None:
    """Add to the history of the tree that was written what was there before, and what is left."""
    root = Path(request.output) if request.output else made.root
    if not Path(request.path).is_dir() or not history.folder(root).is_dir():
        return
    if before is not None:
        history.note(root, "scan", before, history.BEFORE)
    if failed:  # not all of the plan was done
        rest = engine.scan([root], settings.load(root), jobs=request.jobs or None).findings
    else:
        rest = _findings(made, request, root, made.rest)
    history.note(root, "migrate", rest, f"phase {request.phase}")


def _carry_out(made: Plan, request: Request) -> list[Unparsed]:
    """Do with the plan what the mode says; returns the files that could not be written."""
    if request.mode == "write":
        return _write(made, request)
    if request.mode == "patch":
        for file in patches.write(made, Path(request.patch)):
            _emit([f"wrote {file}\n".encode()])
    elif request.mode == "check":
        _emit(f"would change {change.path}\n".encode() for change in made.changes)
    else:
        _show(made)
    return []


def _ask(request: Request, options: Options) -> tuple[Plan, bool]:
    """The plan with what the user accepts, and whether to go on with it."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    talk = Interview(sys.stdin, sys.stderr, colour=colour)
    made = plan(request.path, options, jobs=request.jobs or None, decide=talk)
    if not talk.stopped:
        return made, True
    count = sum(len(change.done) for change in made.changes)
    if not count:
        return made, False
    verb = {"write": "Write", "patch": "Write patches of"}.get(request.mode, "Show")
    rewrites = f"{count} accepted rewrite{'' if count == 1 else 's'}"
    return made, talk.confirm(f"{verb} the {rewrites}?")


def _code(made: Plan, request: Request, failed: Sequence[Unparsed]) -> int:
    if failed:
        return 2
    if request.mode == "check" and made.changes:
        return 1
    return 4 if request.strict and made.unparsed else 0


def _options(request: Request) -> Options:
    known = [phase.value for phase in Phase]
    if request.phase not in known:
        raise UsageError(f"There is no phase {request.phase}.", remedy=f"Phases: {', '.join(known)}.")
    if request.operators and request.operators not in OPERATORS:
        raise UsageError(
            f"There is no choice of operators {request.operators}.",
            remedy=f"Choices: {', '.join(OPERATORS)}.",
        )
    chosen = _config(request)
    if request.operators:
        chosen = replace(chosen, operators=request.operators)
    return Options(Phase(request.phase), _without_copy(chosen, request), request.unsafe, request.annotate)


def _without_copy(config: Config, request: Request) -> Config:
    """The settings, with the folder of the copy left out where it lies in the tree that is copied."""
    inside = os.path.relpath(os.path.realpath(request.output), os.path.realpath(request.path))
    if not request.output or inside.split(os.sep)[0] in (os.curdir, os.pardir):
        return config
    pattern = f"{glob.escape(Path(inside).as_posix())}/*"
    return replace(config, exclude=(*config.exclude, pattern))


def _config(request: Request) -> Config:
    if request.config:
        found = settings.load_file(Path(request.config))
    else:
        found = settings.load(Path() if request.path == "-" else Path(request.path))
    return found.with_choice(_split(request.select), _split(request.ignore))


def _split(values: Iterable[str]) -> list[str]:
    """`--select PK101,PK2 --select PK3` → ["PK101", "PK2", "PK3"]."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


# --- showing and writing --------------------------------------------------------------------------


def _show(made: Plan) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for change in made.changes:
        lines = diffs.diff(change.path, change.before, change.after)
        _emit(diffs.coloured(lines) if colour else lines)


def _emit(lines: Iterable[bytes]) -> None:
    """Bytes to stdout as they are: a diff holds lines in the encodings of its files."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has gone (`portkit migrate . | head`); the summary still comes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(made: Plan, request: Request) -> list[Unparsed]:
    """Write in place, or to a copy; returns the files that could not be written or copied."""
    if request.output:
        target, given = Path(request.output), Path(request.path)
        failed = copying.copy_tree(
            made.root, target, only="" if given.is_dir() else given.name, force=request.force
        )
        failed += writing.write(made, target)
        made_new = [change.path for change in made.changes if change.before is None]
        copying.list_copy(target, [*copying.listed(target), *made_new])
        return failed
    return writing.write(made)


def _refuse_uncommitted(made: Plan, *, one_file: bool) -> None:
    if not made.changes:
        return
    names = writing.uncommitted(made.root, made.changes)
    ours = {change.path for change in made.changes}
    names = [name for name in names if not one_file or name in ours]
    names.sort(key=lambda name: name not in ours)
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise UsageError(
            f"The git tree has uncommitted changes: {', '.join(names[:3])}{more}.",
            place=str(made.root),
            remedy="Commit or stash them, write a copy with --output DIR, or use --force.",
        )


def _run_stdin(request: Request, options: Options) -> int:
    """Python on stdin: its diff, or with --write the migrated text, to stdout."""
    if request.interactive or request.patch or request.vendor:
        option = "--interactive" if request.interactive else "--patch" if request.patch else "--vendor"
        raise UsageError(f"{option} needs a file or a folder.", remedy="Name one instead of -.")
    if request.output:
        raise UsageError("--output needs a file or a folder.", remedy="Use --write: it prints the text.")
    data = sys.stdin.buffer.read()
    try:
        source = load(data, "<stdin>", Kind.PYTHON)
    except Unreadable as error:
        raise UsageError(f"This {error.reason}.", place="<stdin>", remedy="Give Python text.") from None
    rewritten = rewrite(source, options)
    after = source.encode(comments(source, options, rewritten).text)
    if request.mode == "write":
        _emit([after])
    elif request.mode == "diff" and after != data:
        _emit(diffs.diff("<stdin>", data, after))
    return 1 if request.mode == "check" and after != data else 0
