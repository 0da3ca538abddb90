"""Proxies' logs as Spark reads them: a Kafka topic, or files with the same columns.

The driver asks how far a log reaches, and divides what is new into *spans*, one per partition. A
span is a few bytes, and only it goes through Spark. The process that counts the partition fetches
its records from the log itself.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deniable.errors import LogError, ParameterError

if TYPE_CHECKING:
    from deniable.logs.kafka_reader import KafkaLogReader, Topic, TopicKeeper
    from deniable.logs.kafka_settings import KafkaSettings

__all__ = ["FileSource", "KafkaSource", "LogSource", "SourcePosition"]

SourcePosition = dict[str, Any]
"""How far a log was read, as Spark stores it: names, numbers and lists of them."""


class LogSource(Protocol):
    """A proxy's log."""

    @property
    def partitions(self) -> int:
        """How many partitions it has: a power of two."""
        ...

    def identity(self) -> str | None:
        """A name that no other log has, if the log has one."""
        ...

    def carried(self) -> LogSource:
        """The same source, for machines that do not have the files of this one."""
        ...

    def first(self) -> SourcePosition:
        """The position before the oldest record that is left."""
        ...

    def last(self) -> SourcePosition:
        """The position after the newest record."""
        ...

    def step(self, start: SourcePosition, last: SourcePosition) -> SourcePosition:
        """How far a batch that begins at `start` goes: at most to `last`."""
        ...

    def spans(self, start: SourcePosition, end: SourcePosition) -> list[tuple[int, str]]:
        """The spans between two positions, each with its partition. The same at every call."""
        ...

    def fetch(self, partition: int, span: str) -> Iterable[tuple[int, bytes | memoryview]]:
        """The records of a span with their offsets, which ascend in every partition."""
        ...


@dataclass(frozen=True)
class KafkaSource:
    """A topic: its committed records, from the oldest on. Records that were deleted before they
    were read stop the stream."""

    settings: KafkaSettings
    records_a_batch: int = 4096

    @functools.cached_property
    def partitions(self) -> int:
        """As many as the topic has: the cluster is asked once."""
        return self._look().n_partitions

    def identity(self) -> str | None:
        """The topic's own id, which changes if the topic is deleted and created again."""
        return self._look().identity

    def carried(self) -> KafkaSource:
        """The same source, with passwords and certificates in place of the files that hold them."""
        return replace(self, settings=self.settings.carried())

    @functools.cached_property
    def _keeper(self) -> TopicKeeper:
        from deniable.logs.kafka_reader import TopicKeeper  # noqa: PLC0415 - an extra
        from deniable.logs.kafka_settings import require_client  # noqa: PLC0415

        require_client()
        return TopicKeeper(self.settings)

    def _look(self) -> Topic:
        return self._keeper.find(self.settings.topic)

    def _place(self, first: bool) -> SourcePosition:
        topic = self._look()
        return {
            "topic": topic.identity,
            "offsets": list(self._keeper.ends(self.settings.topic, topic.n_partitions, first)),
        }

    def first(self) -> SourcePosition:
        """The offset of the oldest record of each partition, and the topic's identity."""
        return self._place(first=True)

    def last(self) -> SourcePosition:
        """The offset after the last committed record of each partition."""
        return self._place(first=False)

    def step(self, start: SourcePosition, last: SourcePosition) -> SourcePosition:
        """At most a fixed number of records, divided among the partitions in proportion to what
        each has."""
        from deniable.logs.kafka_reader import check_reaches  # noqa: PLC0415 - an extra

        name = self.settings.topic
        at, ends = start["offsets"], last["offsets"]
        if start["topic"] != last["topic"]:
            raise LogError(f"the topic {name} was deleted and made again after it was read")
        if len(at) != len(ends):
            raise LogError(
                f"the topic {name} has {len(ends)} partitions, and had {len(at)} when it was read"
            )
        check_reaches(name, tuple(at), tuple(ends))
        ahead = [end - place for place, end in zip(at, ends, strict=True)]
        wanted = min(sum(ahead), self.records_a_batch)
        parts = [-(-n * wanted // max(1, sum(ahead))) for n in ahead]
        return {
            "topic": start["topic"],
            "offsets": [place + n for place, n in zip(at, parts, strict=True)],
        }

    def spans(self, start: SourcePosition, end: SourcePosition) -> list[tuple[int, str]]:
        """For each partition, the first offset and the one after the last."""
        pairs = zip(start["offsets"], end["offsets"], strict=True)
        return [
            (partition, json.dumps(pair))
            for partition, pair in enumerate(pairs)
            if pair[0] < pair[1]
        ]

    def fetch(self, partition: int, span: str) -> Iterable[tuple[int, bytes]]:
        """The committed records between two offsets."""
        records = _reader(self.settings).read_span(partition, *json.loads(span))
        return [(record.offset, record.value or b"") for record in records]


_readers: dict[str, KafkaLogReader] = {}
"""The readers of this process, by their parameters: connections outlast a batch."""


def _reader(settings: KafkaSettings) -> KafkaLogReader:
    from deniable.logs.kafka_reader import KafkaLogReader  # noqa: PLC0415 - needs the extra `kafka`

    name = json.dumps([settings.topic, settings.client()], sort_keys=True)
    if name not in _readers:
        _readers[name] = KafkaLogReader(settings, wait_ms=1)
    return _readers[name]


@dataclass(frozen=True)
class FileSource:
    """Parquet files in a folder, with the columns partition (32 bits), offset (64 bits) and value
    (binary), read in the order of their names: for recorded logs, benchmarks and notebooks. A file
    with one partition per row group is read fastest.
    """

    folder: str
    """A path, or an address that PyArrow knows (`s3://…`, `hdfs://…`)."""
    partitions: int = 16
    files_a_batch: int = 1000

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.partitions & (self.partitions - 1):
            raise ParameterError("partitions", self.partitions, "must be a power of two")

    def identity(self) -> str | None:
        """None: files have no identity of their own."""
        return None

    def carried(self) -> FileSource:
        """The same source: the folder must be accessible to all machines."""
        return (
            self
            if "://" in self.folder
            else replace(self, folder=str(Path(self.folder).absolute()))
        )

    def _names(self) -> list[str]:
        from pyarrow import fs  # noqa: PLC0415 - slow to load

        system, folder = _file_system(self.folder)
        try:
            found = system.get_file_info(fs.FileSelector(folder))
        except OSError as error:
            raise LogError(
                f"the folder {self.folder} cannot be read: {type(error).__name__}"
            ) from None
        return sorted(
            each.base_name
            for each in found
            if each.extension == "parquet" and each.base_name[0] not in "._"
        )

    def first(self) -> SourcePosition:
        """Before the first file."""
        return {"file": "", "files": 0}

    def last(self) -> SourcePosition:
        """The last file, and how many there are."""
        names = self._names()
        return {"file": names[-1], "files": len(names)} if names else self.first()

    def step(self, start: SourcePosition, last: SourcePosition) -> SourcePosition:
        """At most a fixed number of files."""
        names = self._names()
        known = [name for name in names if name <= start["file"]]
        if len(known) > start["files"]:
            rule = f"files must come in the order of their names, and {start['files']} were read"
            raise LogError(f"{self.folder} holds {len(known)} files up to {start['file']}: {rule}")
        new = self._between(names, start, last)[: self.files_a_batch]
        return {"file": new[-1], "files": start["files"] + len(new)} if new else start

    @staticmethod
    def _between(names: list[str], start: SourcePosition, end: SourcePosition) -> list[str]:
        return [name for name in names if start["file"] < name <= end["file"]]

    def spans(self, start: SourcePosition, end: SourcePosition) -> list[tuple[int, str]]:
        """For every partition, the files."""
        new = self._between(self._names(), start, end)
        if len(new) != end["files"] - start["files"]:
            raise LogError(
                f"{self.folder} no longer has the files that came after"
                f" {start['file'] or 'its beginning'}"
            )
        return [(partition, json.dumps(new)) for partition in range(self.partitions) if new]

    def fetch(self, partition: int, span: str) -> Iterable[tuple[int, bytes | memoryview]]:
        """The records of a partition in these files."""
        import pyarrow as pa  # noqa: PLC0415 - slow to load

        for name in json.loads(span):
            try:
                yield from _records(self.folder, name, partition, self.partitions)
            except LogError:
                raise
            except (
                pa.ArrowException,
                OSError,
                ValueError,
                LookupError,
                TypeError,
                MemoryError,
            ) as error:
                raise LogError(
                    f"{name} in {self.folder} cannot be read as a log: {type(error).__name__}"
                ) from None


def _file_system(folder: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415 - slow to load

    found: tuple[Any, str] = (
        fs.FileSystem.from_uri(folder)
        if "://" in folder
        else (fs.LocalFileSystem(use_mmap=True), folder)
    )
    return found


@functools.lru_cache(maxsize=256)
def _contents(folder: str, name: str, size: int, changed: int) -> tuple[Any, list[tuple[int, int]]]:
    """A file's metadata; and for each row group its smallest and largest partition.

    Cached for the other partitions. Another file in the same place has a different size or
    modification time.
    """
    from pyarrow import parquet  # noqa: PLC0415 - slow to load

    system, path = _file_system(folder)
    with system.open_input_file(f"{path}/{name}") as content:
        file = parquet.ParquetFile(content)
        return file.metadata, [_range(file, group) for group in range(file.num_row_groups)]


_EMPTY = (0, -1)
"""The partitions of an empty row group."""


def _range(file: Any, group: int) -> tuple[int, int]:
    from pyarrow import compute  # noqa: PLC0415 - slow to load

    place = file.schema_arrow.get_field_index("partition")
    known = file.metadata.row_group(group).column(place).statistics if place >= 0 else None
    if known is not None and known.has_min_max and known.null_count == 0:
        return known.min, known.max
    numbers = file.read_row_group(group, columns=["partition"], use_threads=False).column(
        "partition"
    )
    if not len(numbers):
        return _EMPTY
    found = compute.min_max(numbers.fill_null(-1)).as_py()
    return found["min"], found["max"]


def _records(
    folder: str, name: str, partition: int, n_partitions: int
) -> Iterable[tuple[int, bytes | memoryview]]:
    from pyarrow import compute, parquet  # noqa: PLC0415 - slow to load

    system, path = _file_system(folder)
    now = system.get_file_info(f"{path}/{name}")
    metadata, ranges = _contents(folder, name, now.size, now.mtime_ns)
    astray = [
        number
        for each in ranges
        for number in each
        if each != _EMPTY and not 0 <= number < n_partitions
    ]
    if astray:
        raise LogError(
            f"{name} in {folder} holds records of partition {astray[0]}, but there are"
            f" {n_partitions} partitions"
        )
    with system.open_input_file(f"{path}/{name}") as content:
        file = parquet.ParquetFile(content, metadata=metadata)
        for group, (least, most) in enumerate(ranges):
            if not least <= partition <= most:
                continue
            table = file.read_row_group(
                group, columns=["partition", "offset", "value"], use_threads=False
            )
            if least != most:
                table = table.filter(compute.equal(table.column("partition"), partition))
            values = (value for chunk in table.column("value").chunks for value in _views(chunk))
            yield from zip(table.column("offset").to_pylist(), values, strict=True)


def _views(chunk: Any) -> list[bytes | memoryview]:
    """The values of a binary array, in place. (A PyArrow scalar is a copy, which takes as long as
    reading the file.)"""
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    chunk = chunk.cast(pa.binary())
    _, offsets, content = chunk.buffers()
    cuts = np.frombuffer(offsets, dtype=np.int32)[
        chunk.offset : chunk.offset + len(chunk) + 1
    ].tolist()
    view = memoryview(b"" if content is None else content)
    return [view[start:end] for start, end in itertools.pairwise(cuts)]
