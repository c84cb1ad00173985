"""`make mutants`: what it makes of mistakes that are noticed, that are not, and that do not fit the code."""

import re
import subprocess
from pathlib import Path

import pytest

from tools.mutants import __main__ as command
from tools.mutants import copies, runner
from tools.mutants.catalog import MUTANTS
from tools.mutants.mutant import Mutant, StaleMutant
from tools.repository import ROOT

SOURCE = "def twice(number):\n    return number * 2\n"
TESTS = "from shop import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree that stands in for this one."""
    root = tmp_path / "tree"
    folder = root / copies.KERNEL_FOLDER
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / f"_kernel{copies.SUFFIX}").touch()
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "shop.py").write_text(SOURCE, encoding="utf-8")
    (root / "test_shop.py").write_text(TESTS, encoding="utf-8")
    (root / ".gitignore").write_text("*.so\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.setattr(copies, "ROOT", root)
    monkeypatch.setattr(command, "ROOT", root)
    return root


def mutant(name: str, old: str, new: str, *tests: str, file: str = "shop.py") -> Mutant:
    return Mutant(name, file, old, new, tests or ("test_shop.py",))


WRONG = mutant("shop: three times", "* 2", "* 3")
UNSEEN = mutant("shop: another way", "number * 2", "number + number")


@pytest.mark.slow
def test_each_outcome_is_told_and_the_tree_stays_as_it_is(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undefined = mutant("shop: undefined", "* 2", "* half")
    missing = mutant("shop: missing", "def twice", "def thrice")
    assert command.main([], [WRONG, UNSEEN, undefined, missing]) == 1
    table = re.findall(r"^(shop: .*?)  +(\w+)", capsys.readouterr().out, re.MULTILINE)
    assert table == [
        (WRONG.name, "noticed"),
        (UNSEEN.name, "SURVIVED"),
        (undefined.name, "BROKEN"),
        (missing.name, "BROKEN"),
    ]
    assert (tree / "shop.py").read_text(encoding="utf-8") == SOURCE


@pytest.mark.slow
def test_tests_that_do_not_end_are_ended_and_count_as_not_noticed(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_RUN_SECONDS", 3)
    endless = mutant("shop: endless", "    return", "    while True:\n        pass\n    return")
    assert command.main([], [endless]) == 1
    assert "ENDLESS  shop: endless" in capsys.readouterr().out


@pytest.mark.slow
def test_mutants_are_chosen_by_parts_of_their_names(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["-k", "three"], [WRONG, UNSEEN]) == 0
    assert "1 of 1 mutants were noticed" in capsys.readouterr().out
    assert command.main(["-k", "nothing"], [WRONG]) == 2
    assert "no mutant has nothing in its name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stale", "said"),
    [
        pytest.param(mutant("m", "* 4", "* 3"), "occurs 0 times in shop.py", id="gone"),
        pytest.param(mutant("m", "number", "2"), "occurs 2 times in shop.py", id="ambiguous"),
        pytest.param(mutant("m", "* 2", "* 3", file="none.py"), "no file none.py", id="no-file"),
        pytest.param(mutant("m", "* 2", "*"), "not valid Python", id="invalid"),
        pytest.param(
            mutant("m", "* 2", "* 3", "test_none.py"), "no test file test_none.py", id="no-test-file"
        ),
    ],
)
def test_a_mutant_that_does_not_fit_the_code_is_an_error_before_anything_runs(
    tree: Path, capsys: pytest.CaptureFixture[str], stale: Mutant, said: str
) -> None:
    assert command.main([], [WRONG, stale]) == 2
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_a_test_that_fails_without_any_mutant_is_told_apart(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "test_shop.py").write_text(TESTS.replace("== 4", "== 5"), encoding="utf-8")
    assert command.main([], [WRONG]) == 2
    assert "tests fail without any mutant" in capsys.readouterr().out


def test_every_mutant_fits_the_code_and_names_tests_that_exist() -> None:
    stale = []
    for each in MUTANTS:
        try:
            each.check(ROOT)
        except StaleMutant as error:
            stale.append(str(error))
        stale += [f"{each.name}: there is no {test}" for test in each.tests if not _exists(test)]
    assert not stale, "\n".join(stale)


def test_names_differ_and_begin_with_the_folder_that_the_mistake_is_made_in() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    folders = {each.name: each.name.partition(":")[0] for each in MUTANTS}
    wanted = {
        name: f"{folder}/" if folder in ("tests", "tools") else f"pyklient/{folder}/"
        for name, folder in folders.items()
    }
    assert [each.name for each in MUTANTS if not each.file.startswith(wanted[each.name])] == []


def _exists(test: str) -> bool:
    file, *names = test.split("::")
    source = (ROOT / file).read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(def|class) {name}\b", source, re.MULTILINE) for name in names)
