"""`make mutants`: breaks the code in known ways, one at a time, and expects a test to fail each time.

Each mutant is a small mistake as a programmer might make it: an inverted condition, a dropped call, a number
off by one. It is made in a copy of the tree, and the tests that are named with it run there. A mutant that no
test notices shows a gap in the tests. First the same tests run on the unchanged copy and must pass.

examples:
  make mutants                                every mutant, on all cores
  make mutants MUTANTS="--list"               their names, files and tests
  make mutants MUTANTS="-k compression"       those with "compression" in their name
  make mutants MUTANTS="-k producer -k net"   those of two folders
  make mutants MUTANTS="--jobs 1"             one at a time

exit status: 0 every mutant was noticed; 1 one was not; 2 a mutant does not fit the code, or a test fails
without any mutant.
"""

import argparse
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tools.mutants.catalog import MUTANTS
from tools.mutants.copies import TreeCopy, fetch_build_tools
from tools.mutants.mutant import Mutant, StaleMutant, is_kernel_source
from tools.mutants.runner import Outcome, Result, end_all, examine, run_tests
from tools.repository import ROOT

_UNCHANGED_SECONDS = 900
_printing = threading.Lock()


def main(arguments: Sequence[str] | None = None, mutants: Sequence[Mutant] = MUTANTS) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [each for each in mutants if not options.k or any(part in each.name for part in options.k)]
    if not chosen:
        print(f"no mutant has {' or '.join(options.k)} in its name; --list shows all of them")
        return 2
    if options.list:
        for each in chosen:
            print(f"{each.name:<48} {each.file}\n{'':48} {' '.join(each.tests)}")
        return 0
    if stale := _stale(chosen):
        print(*stale, sep="\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="pyklient-mutants-") as temporary:
        return _run(chosen, max(1, min(options.jobs, len(chosen))), Path(temporary))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-k", action="append", default=[], metavar="NAME", help="only mutants with NAME in their name"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="how many at the same time (default: cores)"
    )
    return parser


def _stale(mutants: Sequence[Mutant]) -> list[str]:
    found = []
    for mutant in mutants:
        try:
            mutant.check(ROOT)
        except StaleMutant as error:
            found.append(str(error))
    return found


def _run(mutants: Sequence[Mutant], jobs: int, temporary: Path) -> int:
    began = time.monotonic()
    copies: queue.SimpleQueue[TreeCopy] = queue.SimpleQueue()
    for number in range(jobs):
        copies.put(TreeCopy(temporary / f"copy{number}"))
    needs_tools = any(is_kernel_source(each.file) for each in mutants)
    tools = fetch_build_tools(temporary / "tools") if needs_tools else None

    def one(mutant: Mutant) -> Result:
        copy = copies.get()
        try:
            return examine(copy, mutant, tools)
        finally:
            copies.put(copy)

    results: dict[Mutant, Result] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            if not _passes_unchanged(mutants, copies, pool, jobs):
                return 2
            running = {pool.submit(one, each): each for each in mutants}
            for future in as_completed(running):
                mutant, result = running[future], future.result()
                results[mutant] = result
                done = f"[{len(results):>3}/{len(mutants)}]"
                _say(f"{done} {result.outcome.value:<8} {mutant.name}, {result.seconds:.0f} s")
                if result.detail:
                    _say(_indented(result.detail))
        except BaseException:  # Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    return _report({each: results[each] for each in mutants}, time.monotonic() - began)


def _passes_unchanged(
    mutants: Sequence[Mutant], copies: "queue.SimpleQueue[TreeCopy]", pool: ThreadPoolExecutor, jobs: int
) -> bool:
    """Run the tests of all *mutants* on unchanged copies, because they must pass there."""
    files: dict[str, list[str]] = {}
    for test in dict.fromkeys(test for each in mutants for test in each.tests):
        files.setdefault(test.partition("::")[0], []).append(test)
    # Files are distributed in turn, so that the jobs take about as long.
    shares = [[test for file in list(files)[job::jobs] for test in files[file]] for job in range(jobs)]
    _say(f"the unchanged code: tests of {len(files)} files ...")

    def one(tests: Sequence[str]) -> Result:
        copy = copies.get()
        try:
            return run_tests(copy, tests, _UNCHANGED_SECONDS, stop_early=False)
        finally:
            copies.put(copy)

    results = list(pool.map(one, [share for share in shares if share]))
    for result in results:
        if result.outcome is not Outcome.SURVIVED:
            _say(f"tests fail without any mutant: {result.detail}")
            return False
    _say(f"they pass, {max(result.seconds for result in results):.0f} s")
    return True


def _indented(text: str) -> str:
    return "".join(f"          {line}\n" for line in text.splitlines()).rstrip()


def _report(results: dict[Mutant, Result], seconds: float) -> int:
    width = max(len(each.name) for each in results)
    _say("")
    for mutant, result in results.items():
        by = result.detail.partition(", ")[0] if result.outcome is Outcome.NOTICED else ""
        _say(f"{mutant.name:<{width}}  {result.outcome.value:<8}  {by}")
    bad = [mutant.name for mutant, result in results.items() if result.outcome is not Outcome.NOTICED]
    _say(f"\n{len(results) - len(bad)} of {len(results)} mutants were noticed, in {seconds:.0f} s")
    if bad:
        _say("not noticed: " + ", ".join(bad))
    return 1 if bad else 0


def _say(line: str) -> None:
    with _printing:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
