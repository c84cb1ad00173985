"""The sequence numbers and epochs of one partition."""

from pyklient.producer.deliver.sequences import Sequences

LAST_SEQUENCE, LAST_EPOCH = (1 << 31) - 1, (1 << 15) - 1


def test_sequence_numbers_count_records_and_go_on_from_0_behind_the_largest() -> None:
    sequences = Sequences()
    sequences.adopt(7, 0)
    counts = [LAST_SEQUENCE - 4, 5, 3, 1]
    assert [sequences.identify(count).sequence for count in counts] == [0, LAST_SEQUENCE - 4, 0, 3]


def test_a_sequence_begins_at_0_in_each_epoch_and_anew_with_another_id_behind_the_last() -> None:
    sequences = Sequences()
    sequences.adopt(7, LAST_EPOCH - 1)
    sequences.identify(5)
    sequences.restart()
    assert sequences.identify(5) == (7, LAST_EPOCH, 0)
    sequences.restart()
    assert (sequences.producer_id, sequences.used_up) == (-1, 7)
