"""The file that a clean shutdown writes."""

from pathlib import Path

import pytest

from pyklient.broker.log.clean_shutdown import LogState, SegmentState, pop_states, write_states

STATES = {"clicks-0": LogState([SegmentState(0, 70, 2, 1000, 0, 70)], [])}


def test_states_that_were_written_are_there_once(tmp_path: Path) -> None:
    assert pop_states(tmp_path) == {}
    write_states(tmp_path, STATES)
    assert pop_states(tmp_path) == STATES
    assert pop_states(tmp_path) == {}


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".clean.new").mkdir()
    write_states(tmp_path, STATES)
    assert "the state of the logs was not saved at the shutdown (Is a directory)" in caplog.text
    assert pop_states(tmp_path) == {}
