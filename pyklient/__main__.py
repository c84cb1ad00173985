"""``python -m pyklient`` and the ``pyklient`` command: the way into the command line."""

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
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
