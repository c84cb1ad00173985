import pytest

class _Gateway:
    id: str

class WorkerController:
    config: pytest.Config
    gateway: _Gateway
    shutting_down: bool
    workerinput: dict[str, object]
    workeroutput: dict[str, object]
    def shutdown(self) -> None: ...
