"""A Parquet data set that grows by whole loads.

::

    path/
      load=000000000000/            one load, as it was published; readers see these
        topic=clicks/partition=0/part-….parquet
        _offsets.json               what of the topics is in it, and in all before it
      _loading/                     loads under way, and what is left of those that failed
        000000000001-<token>/

Names that begin with an underscore are passed over by Spark and its like. Each load is made for a number, the
next one, and whoever publishes that number first has it: any other load for it can never be published.
"""

import json
import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from pyklient.errors import ConfigurationError, KafkaError, LoadConflictError
from pyklient.spark.loading.file_systems import Files
from pyklient.topic_partition import TopicPartition

__all__ = ["DataSet", "Manifest", "Staging", "offsets_json"]

log = logging.getLogger("pyklient.spark")

_LOADING: Final = "_loading"
_MANIFEST: Final = "_offsets.json"
_LOAD: Final = re.compile(r"load=(\d{12})")
_STAGED: Final = re.compile(r"(\d{12})-[0-9a-f]{32}((\.[0-9a-f]{8})?\.gone)?")
_VERSION: Final = 1

OffsetsJSON = Mapping[str, Mapping[str, int]]


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """*offsets* as Spark writes them: ``{"clicks": {"0": 23}}``."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


@dataclass(frozen=True)
class Manifest:
    """What is beside the rows of a load, in ``_offsets.json``."""

    load: int
    token: str
    rows: int
    partition_by: list[str]
    topic_ids: dict[str, str]
    """Those of the topics that have one, in hexadecimal: a topic of the same name may be another."""
    start: OffsetsJSON
    """Where this load began, in the partitions that it has read."""
    end: OffsetsJSON
    """Where the next one begins, in every partition that any load has read."""
    cluster_id: str | None = None
    """Of the brokers; None where they do not tell, and in loads of earlier versions."""
    columns: dict[str, str] | None = None
    """The type of each column, as Spark writes it; None in loads of earlier versions."""
    version: int = field(default=_VERSION)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """``end`` by partition."""
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in self.end.items()
            for partition, offset in partitions.items()
        }

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError, KeyError or TypeError for another text."""
        found: dict[str, Any] = json.loads(text)
        if found["version"] != _VERSION:
            raise ValueError(f"version {found['version']} is of a later pyklient")
        return cls(**found)


@dataclass(frozen=True)
class Staging:
    """A load under way."""

    number: int
    token: str

    @property
    def name(self) -> str:
        """Of its directory, in the data set's."""
        return f"{_LOADING}/{self.number:012}-{self.token}"


class DataSet:
    """The one in *files*. What Hadoop's client or the system raises comes through as it is."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._files.root

    def uri_of(self, load: "Staging | int") -> str:
        """Where a load is, published or under way."""
        return f"{self.uri}/{load.name if isinstance(load, Staging) else _published(load)}"

    def newest(self) -> Manifest | None:
        """That of the load published last; None where there is none.

        Raises ConfigurationError for a directory with other things in it, and for a load without its offsets.
        """
        visible = [name for name in self._files.names() if name[0] not in "_."]
        strange = [name for name in visible if not _LOAD.fullmatch(name)]
        if strange:
            raise ConfigurationError(
                f"{self.uri} holds {strange[0]!r}, which is no load: a data set of loads needs a directory "
                "of its own"
            )
        if not visible:
            return None
        text = self._files.read(f"{max(visible)}/{_MANIFEST}")
        try:
            if text is None:
                raise ValueError("there is none")
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{self.uri}/{max(visible)}/{_MANIFEST} is not readable ({error}): without it nobody knows "
                "where to go on. Restore it, or remove that load's directory to load its records again"
            ) from error

    def stage(self, number: int) -> Staging:
        """Begin load *number*, out of readers' sight."""
        for _ in range(100):
            staging = Staging(number, uuid.uuid4().hex)
            if self._files.claim(staging.name):
                return staging
        raise KafkaError(
            f"cannot make a directory in {self.uri}/{_LOADING}: others remove it at once, each time"
        )

    def publish(self, staging: Staging, manifest: Manifest) -> None:
        """Make a load visible with its offsets, in one step.

        Raises LoadConflictError if another with that number was faster.
        """
        target = _published(staging.number)
        try:
            self._files.write(f"{staging.name}/{_MANIFEST}", manifest.to_json())
            self._files.rename(staging.name, target)
        except Exception as error:
            # The answer may have been lost, and not the request.
            if self._is_published(staging):
                return
            self.raise_conflict(staging, error)
            raise

    def raise_conflict(self, staging: Staging, error: BaseException) -> None:
        """Raises LoadConflictError, because of *error*, if another load has been published in the place of
        *staging*."""
        if self._files.read(f"{_published(staging.number)}/{_MANIFEST}") is not None:
            raise LoadConflictError(
                f"another load into {self.uri} was published first, as {_published(staging.number)}: nothing "
                "of this one is visible. Run it again for what is new since, and run one at a time"
            ) from error

    def discard(self, staging: Staging) -> None:
        """Delete a load that will not be published. What cannot be deleted is left, with a warning."""
        self._remove(staging.name)

    def sweep(self, newest: int | None) -> None:
        """Delete what failed loads have left: those whose number is taken, as *newest* is, and those whose
        process is known to have ended. Others may still be running."""
        for each in self._files.names(_LOADING):
            found = _STAGED.fullmatch(each)
            if found is None:
                continue
            taken = newest is not None and int(found[1]) <= newest
            if taken or self._files.abandoned(f"{_LOADING}/{each}"):
                self._remove(f"{_LOADING}/{each}")

    def _is_published(self, staging: Staging) -> bool:
        text = self._files.read(f"{_published(staging.number)}/{_MANIFEST}")
        return text is not None and staging.token in text

    def _remove(self, name: str) -> None:
        try:
            self._files.remove(name)
        except Exception as error:
            log.warning("%s/%s is left behind: %s", self.uri, name, error)


def _published(number: int) -> str:
    return f"load={number:012}"
