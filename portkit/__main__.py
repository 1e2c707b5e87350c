"""The `portkit` command: hands over to the command line and turns errors into exit codes."""

import sys


def main() -> None:
    """Run the command line.  Exit codes: 0 fine, 1 a check failed, 2 usage, 3 internal, 4 unparsed files."""
    from portkit.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
