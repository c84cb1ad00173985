"""The entry point of ``python -m pyklient`` and of the ``pyklient`` command."""

import gc
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on ``sys.argv``. Return its exit code."""
    try:
        from pyklient.cli.main import run
    except ImportError as error:
        return _without_command_line(error)
    except KeyboardInterrupt:
        return 130
    try:
        return run(sys.argv[1:])
    finally:
        # Everything is closed. Python would still look for garbage several times before it ends, which takes
        # most of the time between a SIGTERM and the end of the process.
        gc.freeze()


def _without_command_line(error: ImportError) -> int:
    """Run ``pyklient info``, or print which package the command line lacks. Return the exit code.

    *error* is the failed import of the command line. ``pyklient info`` needs no other package, so it also
    works without click and rich.
    """
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
        "pip install '.[cli]' in the clone of pyklient (`pyklient info` works without it)",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
