"""portkit kernel: which kernels of a file compile, and what one is compiled to."""

from __future__ import annotations

import typer


def command(
    file: str = typer.Argument(..., metavar="FILE[:NAME]", help="A Python file, and a kernel in it."),
    arg: list[str] = typer.Option(
        [],
        "--arg",
        metavar="NAME=VALUE",
        help="An argument: a type (*fp32, i32) or a constant; or the value of a name of the file.",
    ),
    show: str = typer.Option(
        "", "--show", metavar="STAGE", help="Print a stage of a kernel: ir, llvm or asm."
    ),
    target: str = typer.Option(
        "", "--target", help="Compile for another processor; `portkit doctor` lists them."
    ),
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
) -> None:
    """List the kernels of a file, and say which compile; with --show, print one as IR, LLVM IR or assembly.

    Nothing of the file is imported or run: each kernel is compiled from its source text, with the
    functions and constants that it uses, also from other files of the same source tree. Where the file
    does not tell what it is called with, likely arguments are assumed, and named.

    Exit codes: 0 every kernel compiles, 1 one does not, 2 wrong call, or no such kernel.
    """
    from portkit.errors import CheckFailed, UsageError
    from portkit.kernels import checking, isolate, showing
    from portkit.runtime.tile import as_triton

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for kernel.", remedy="Formats: json, terminal.")
    given = showing.given(arg)
    path, name = isolate.path_and_name(file)
    with as_triton():
        host = checking.chosen_target(target).name
        world = checking.world_of(path, given)
        wanted = showing.chosen(world, name)
        if show:
            typer.echo(showing.stage(world, wanted, given, show, target))
            return
    found = []
    for verdict in checking.check(path, [item.name for item in wanted], given, target):
        found.append(verdict)
        if format == "terminal":
            typer.echo("\n".join(checking.rows(verdict)))
    if format == "json":
        typer.echo(checking.as_json(found, path, host))
    failed = [item for item in found if item.verdict not in (checking.COMPILES, checking.HELPER)]
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(found)} kernels did not compile for {host}.")
