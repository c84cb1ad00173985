"""The count of steps says only how much the counted code does."""

import gc

from tests.steps import steps_of


def _collected(phase: str, info: dict[str, int]) -> None:
    """Do something in Python, as the functions of other packages do in ``gc.callbacks``."""
    phase.startswith(str(info))


def test_a_garbage_collection_is_no_step() -> None:
    def make() -> list[list[int]]:
        return list(map(list, [()] * 2_000))

    before, thresholds = steps_of(make), gc.get_threshold()
    gc.callbacks.append(_collected)
    gc.set_threshold(500)
    try:
        assert steps_of(make) == before
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(_collected)
    assert gc.isenabled()
