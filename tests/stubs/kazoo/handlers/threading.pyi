from collections.abc import Callable
from threading import Thread
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

class KazooTimeoutError(Exception): ...

class AsyncResult(Generic[_T]):
    def get(self, block: bool = True, timeout: float | None = None) -> _T: ...

class SequentialThreadingHandler:
    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> Thread: ...
    def select(self, *args: Any, **kwargs: Any) -> Any: ...
