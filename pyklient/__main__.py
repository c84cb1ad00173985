"""``python -m pyklient`` and the ``pyklient`` command: the way into the command line."""

import gc
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on ``sys.argv``; its exit code."""
    try:
        from pyklient.cli.main import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        print(
            f"pyklient: the command line needs {error.name}, which is not installed; "
            "install the extra `cli`: pip install '.[cli]' in the clone",
            file=sys.stderr,
        )
        return 2
    except ImportError as error:
        if error.name != "pyklient.protocol.records.kernel":
            raise
        print(f"pyklient: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        return run(sys.argv[1:])
    finally:
        # Everything is closed, and the process ends. Python would still go over every object that is left,
        # several times, to look for garbage: most of the time between a SIGTERM and the end.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
