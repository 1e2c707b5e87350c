"""`portkit doctor`: what this machine can run."""

from __future__ import annotations

import typer

import portkit


def command() -> None:
    """Show what this machine can run: targets, torch, devices, cache."""
    typer.echo(f"portkit {portkit.__version__}")
