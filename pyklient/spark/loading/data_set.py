"""A Parquet data set to which loads are added as a whole.

::

    path/
      load=000000000000/            a published load, which readers see
        topic=clicks/partition=0/part-….parquet
        _offsets.json               its manifest: the offsets up to which this and earlier loads have read
      _loading/                     staging directories of loads that are running or have failed
        000000000001-<token>/

Spark and similar readers ignore names that begin with an underscore. The number of a new load is one higher
than the number of the newest published load. If several loads run with the same number, only the one that
ends first is published. A load may replace earlier loads. Their directories are then deleted, so the numbers
of the remaining loads may have gaps.
"""

import json
import logging
import re
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from pyklient.errors import ConfigurationError, KafkaError, LoadConflictError
from pyklient.spark.loading.file_systems import FileSystem
from pyklient.spark.offsets_json import OffsetsJson, from_json
from pyklient.topic_partition import TopicPartition

__all__ = ["DataSet", "Manifest", "Staging"]

log = logging.getLogger("pyklient.spark")

_LOADING: Final = "_loading"
_MANIFEST: Final = "_offsets.json"
_LOAD: Final = re.compile(r"load=(\d{12})")
_STAGED: Final = re.compile(r"(\d{12})-[0-9a-f]{32}((\.[0-9a-f]{8})?\.gone)?")
_VERSION: Final = 1


@dataclass(frozen=True)
class Manifest:
    """The contents of ``_offsets.json``, a file in the directory of each load: the offsets, topics and
    columns of the load."""

    load: int
    token: str
    rows: int
    partition_by: list[str]
    topic_ids: dict[str, str]
    """The topic id of each topic in hexadecimal; empty if the brokers have no topic ids. A topic that was
    deleted and created again has another id."""
    start: OffsetsJson
    """The offsets at which this load began, for each partition that it has read."""
    end: OffsetsJson
    """The offsets at which the next load begins, for every partition that this load or an earlier load has
    read."""
    cluster_id: str | None = None
    """The id of the cluster from which the records were loaded. None if the brokers have no cluster id, or if
    the file was written by a pyklient version that did not store the id."""
    columns: dict[str, str] | None = None
    """The type of each column, in Spark's notation. None if the file was written by a pyklient version that
    did not store the types."""
    version: int = field(default=_VERSION)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets at which the next load begins, by partition."""
        return from_json(self.end)

    def to_json(self) -> str:
        """Return the manifest as the text of its file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse *text*, the contents of a manifest file. Raises ValueError, KeyError or TypeError if *text*
        is not a valid manifest."""
        found: dict[str, Any] = json.loads(text)
        if found["version"] != _VERSION:
            raise ValueError(
                f"the manifest has version {found['version']}, which this version of pyklient cannot read"
            )
        return cls(**found)


@dataclass(frozen=True)
class Staging:
    """The directory in which a load is prepared, until it is renamed and readers see it."""

    number: int
    token: str

    @property
    def name(self) -> str:
        """The name of the directory, relative to the directory of the data set."""
        return f"{_LOADING}/{self.number:012}-{self.token}"


class DataSet:
    """The Parquet data set in the directory to which *files* gives access.

    Errors of Hadoop and of the operating system are raised unchanged.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files

    @property
    def uri(self) -> str:
        """The directory of the data set as a URI."""
        return self._files.root

    def uri_of(self, load: "Staging | int") -> str:
        """Return the URI of a load's directory. *load* is the number of a load that readers see, or the
        staging directory in which a load is prepared."""
        return f"{self.uri}/{load.name if isinstance(load, Staging) else _published(load)}"

    def newest(self) -> Manifest | None:
        """Return the manifest of the newest load that readers see; None if there is none.

        Raises ConfigurationError if the directory has files that are not loads, or if the manifest cannot be
        read.
        """
        visible = self._visible()
        return self._manifest(max(visible)) if visible else None

    def loads(self) -> list[Manifest]:
        """Return the manifests (offsets, topics and columns) of all loads that readers see, the oldest first.
        Raises the same errors as ``newest``."""
        return [self._manifest(each) for each in sorted(self._visible())]

    def check_replacing(self) -> None:
        """Raise ConfigurationError if the file system cannot replace published loads by a new load in one
        step."""
        self._files.check_replacing()

    def _visible(self) -> list[str]:
        visible = [name for name in self._files.names() if name[0] not in "_."]
        others = [name for name in visible if not _LOAD.fullmatch(name)]
        if others:
            raise ConfigurationError(
                f"{self.uri} contains {others[0]!r}, which is not a load: use a new directory, or one that "
                "contains only loads"
            )
        return visible

    def _manifest(self, name: str) -> Manifest:
        text = self._files.read(f"{name}/{_MANIFEST}")
        try:
            if text is None:
                raise ValueError(f"the file {_MANIFEST} does not exist")
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{self.uri}/{name}/{_MANIFEST} cannot be read ({error}), so the next load does not "
                f"know where to begin. Restore the file. Or remove the directory {name}: the next "
                "load then loads its records again"
            ) from error

    def stage(self, number: int) -> Staging:
        """Create the staging directory of load *number*, which readers do not see."""
        for _ in range(100):
            staging = Staging(number, uuid.uuid4().hex)
            if self._files.make_locked(staging.name):
                return staging
        raise KafkaError(
            f"cannot create a directory in {self.uri}/{_LOADING}: in each of 100 attempts, another process "
            "removed the new directory at once"
        )

    def publish(
        self,
        staging: Staging,
        manifest: Manifest,
        replaced: Collection[int] = (),
        present: Collection[int] = (),
    ) -> None:
        """Make a load visible to readers together with its *manifest*, in one step. If it replaces other
        loads, the rows of those loads disappear in the same step: *replaced* has the numbers of the loads to
        replace, and *present* has the numbers of all loads that readers see now.

        Raises LoadConflictError if another load with the same number was published first.
        """
        target = _published(staging.number)
        try:
            self._files.write(f"{staging.name}/{_MANIFEST}", manifest.to_json())
            self._appear(staging.name, target, replaced, present)
        except Exception as error:
            # The rename may have succeeded although its response was lost.
            if self._is_published(staging):
                return
            self.raise_conflict(staging, error)
            raise

    def _appear(self, folder: str, target: str, replaced: Collection[int], present: Collection[int]) -> None:
        """Rename *folder* to *target*, and delete the loads *replaced* in the same step. *present* are all
        loads that readers see now."""
        if not replaced:
            self._files.rename(folder, target)
            return
        gone = {_published(each) for each in replaced}
        kept = [each for each in self._files.names() if each not in gone and each != _LOADING]
        self._files.replace(folder, target, kept, [_published(each) for each in present])

    def raise_conflict(self, staging: Staging, error: BaseException) -> None:
        """Raise LoadConflictError, with *error* as its cause, if another load with the number of *staging*
        was published. Otherwise return."""
        if self._files.read(f"{_published(staging.number)}/{_MANIFEST}") is not None:
            raise LoadConflictError(
                f"this load into {self.uri} is discarded, because another load was published first as "
                f"{_published(staging.number)}. Run this load again to store the records that have "
                "arrived since then, and run only one load at a time"
            ) from error

    def discard(self, staging: Staging) -> None:
        """Delete the staging directory of a load. If that is not possible, log a warning."""
        self._remove(staging.name)

    def remove_failed(self, newest: int | None) -> None:
        """Delete the staging directories of failed loads. *newest* is the number of the newest load that
        readers see.

        A load has failed if readers see another load with its number or a higher one, or if its process is
        known to have ended. The staging directories of other loads are kept, because these loads may still be
        running.
        """
        self._files.remove_replaced()
        for each in self._files.names(_LOADING):
            found = _STAGED.fullmatch(each)
            if found is None:
                continue
            taken = newest is not None and int(found[1]) <= newest
            if taken or self._files.is_abandoned(f"{_LOADING}/{each}"):
                self._remove(f"{_LOADING}/{each}")

    def _is_published(self, staging: Staging) -> bool:
        text = self._files.read(f"{_published(staging.number)}/{_MANIFEST}")
        return text is not None and staging.token in text

    def _remove(self, name: str) -> None:
        try:
            self._files.remove(name)
        except Exception as error:
            log.warning("the staging directory %s/%s could not be deleted: %s", self.uri, name, error)


def _published(number: int) -> str:
    return f"load={number:012}"
