"""``python -m tests.spark.same_job BOOTSTRAP PREFIX JARS NAMES OUTPUT`` runs jobs with both formats.

NAMES are the names of the jobs, as a list in JSON. The results are written to OUTPUT as JSON, for the test to
compare.
"""

import json
import sys
import tempfile
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException

from tests.spark.same_job.jobs import ERRORS, JOBS, LIMITED, Word
from tests.spark.same_job.topics import make_topics
from tests.spark.same_job.writes import REFUSED, WRITES
from tools.spark.session import new_session

_WORDS = ("kafka", "pyklient")
_SETTINGS: dict[str, bool | float | int | str | None] = {
    # Compiling each of so many small queries takes longer than running it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}


def main(bootstrap: str, prefix: str, jars: str, names: str, output: str) -> None:
    """Run the jobs."""
    topics = make_topics(bootstrap, prefix)
    with tempfile.TemporaryDirectory() as home:
        spark = new_session("local[2]", Path(home), _SETTINGS | {"spark.jars": jars})
        spark.sparkContext.setLogLevel("OFF")
        words = [
            Word(spark, bootstrap, topics, word, other)
            for word, other in zip(_WORDS, reversed(_WORDS), strict=True)
        ]
        # Both words at the same time: a job spends most of its time waiting.
        with ThreadPoolExecutor(len(words)) as threads:
            ended = dict(zip(_WORDS, threads.map(partial(_all_jobs, json.loads(names)), words), strict=True))
        found: dict[str, Any] = {"version": pyspark.__version__}
        for kind in ("jobs", "errors"):
            found[kind] = {
                name: {word: ended[word][kind][name] for word in _WORDS} for name in ended[_WORDS[0]][kind]
            }
        found["limit"] = _error(LIMITED, words[1])
        spark.stop()
    Path(output).write_text(json.dumps(found), encoding="utf-8")


def _all_jobs(names: Collection[str], word: Word) -> dict[str, dict[str, Any]]:
    """Run the jobs *names* with the format *word*. Return their results."""
    # This makes the session the active one of this thread. Without it, PySpark 4.0 does not find the format
    # of a write.
    word.spark.createDataFrame([], "number int")
    return {
        "jobs": {name: _rows(job, word) for name, job in (JOBS | WRITES).items() if name in names},
        "errors": {name: _error(job, word) for name, (job, _) in (ERRORS | REFUSED).items() if name in names},
    }


def _rows(job: Any, word: Word) -> dict[str, Any]:
    """Return the result of a job: its schema, and its rows as text, sorted."""
    began = time.monotonic()
    try:
        frame = job(word, word.topics)
        rows = sorted(str(row) for row in frame.collect())
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:4000]}
    return {"schema": frame.schema.jsonValue(), "rows": rows, "seconds": round(time.monotonic() - began, 2)}


def _error(job: Any, word: Word) -> str | None:
    try:
        job(word, word.topics).collect()
    except PySparkException as error:
        return str(error)
    except Exception as error:
        # IllegalArgumentException and AssertionError of the JVM come as what py4j makes of them.
        return str(error)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
