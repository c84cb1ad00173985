from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

_T = TypeVar("_T")

class KazooTimeoutError(Exception): ...

class AsyncResult(Generic[_T]):
    def get(self, block: bool = True, timeout: float | None = None) -> _T: ...

class SequentialThreadingHandler:
    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> Thread: ...
