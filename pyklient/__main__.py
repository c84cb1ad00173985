"""``python -m pyklient`` and the ``pyklient`` command: the way into the command line."""

import gc
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on ``sys.argv``; its exit code."""
    try:
        from pyklient.cli.main import run
    except ImportError as error:
        return _without_command_line(error)
    except KeyboardInterrupt:
        return 130
    try:
        return run(sys.argv[1:])
    finally:
        # Everything is closed, and the process ends. Python would still go over every object that is left,
        # several times, to look for garbage: most of the time between a SIGTERM and the end.
        gc.freeze()


def _without_command_line(error: ImportError) -> int:
    """Print the facts if they are asked for, which needs nothing but pyklient; else say what is missing."""
    if error.name == "pyklient.kernel":
        print(f"pyklient: {error}", file=sys.stderr)
        return 2
    if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
        raise error
    if sys.argv[1:] == ["info"]:
        try:
            from pyklient.cli.installation import as_lines, facts
        except ImportError as kernel_error:
            return _without_command_line(kernel_error)
        print("\n".join(as_lines(facts())))
        return 0
    print(
        f"pyklient: the command line needs {error.name}, which is not installed; install the extra `cli`: "
        "pip install '.[cli]' in the clone (`pyklient info` works without it)",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
