"""The command line: one module a command, found by walking this folder.

A command module defines `command`, a typed function whose docstring is the help text; the module's name is
the command's name.  Nothing heavy is imported until a command runs.  A command ends with another exit code
than 0 by `raise typer.Exit(code)`, or by raising a `PortkitError`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

import portkit
from portkit import plugins
from portkit.errors import PortkitError


def _version(show: bool) -> None:
    if show:
        typer.echo(f"portkit {portkit.__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Move training code off CUDA: scan it, migrate it, run it on any device, prove it computes the same."""


def app() -> typer.Typer:
    """The typer application with every command of this folder."""
    root = typer.Typer(
        name="portkit", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    root.callback()(_root)
    for module in plugins.modules("portkit.cli"):
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        root.command(name)(module.command)
    return root


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code and never lets an exception through."""
    try:
        app()(list(arguments), prog_name="portkit")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        print("portkit: stopped", file=sys.stderr)
        return 130
    except PortkitError as error:
        print(f"portkit: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has gone (`portkit scan . | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("PORTKIT_DEBUG"):
            traceback.print_exc()
        print(f"portkit: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("This is a fault of portkit. PORTKIT_DEBUG=1 shows where.", file=sys.stderr)
        return 3
    return 0
