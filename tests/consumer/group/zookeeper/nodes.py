"""ZooKeeper's nodes in memory, on which tests play dialogues, one request at a time if they like."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyklient.errors import KafkaError, NodeExistsError, NoNodeError
from pyklient.registry.requests import (
    Children,
    Create,
    Delete,
    Node,
    Read,
    RegistryDialogue,
    RegistryPause,
    Together,
    Write,
)

__all__ = ["Nodes"]

T = TypeVar("T")


@dataclass
class Nodes:
    """The content and the session (None: none) of each node.

    ``asked`` has all requests that were made, and ``changes`` the number of those that changed a node.
    Requests that are sent together count as one of the ``round_trips``.
    """

    found: dict[str, tuple[bytes, str | None]] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    changes: int = 0
    round_trips: int = 0

    def play(self, dialogue: RegistryDialogue[T], session: str = "mine") -> T:
        """Run *dialogue* to its end."""
        steps = self.steps(dialogue, session)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result

    def steps(self, dialogue: RegistryDialogue[T], session: str) -> Generator[None, None, T]:
        """Run *dialogue*, and stop after each request, also between requests that are sent together."""
        try:
            step = next(dialogue)
            while True:
                self.round_trips += 1
                answers: list[Any] = []
                for request in step.requests if isinstance(step, Together) else [step]:
                    self.asked.append(request)
                    try:
                        answers.append(self._answer(request, session))
                    except KafkaError as error:
                        answers.append(error)
                    yield
                if isinstance(step, Together):
                    step = dialogue.send(answers)
                elif isinstance(answers[0], KafkaError):
                    step = dialogue.throw(answers[0])
                else:
                    step = dialogue.send(answers[0])
        except StopIteration as end:
            result: T = end.value
            return result

    def expire(self, session: str) -> None:
        """End *session*."""
        self.found = {path: node for path, node in self.found.items() if node[1] != session}

    def owners(self, group: str) -> dict[str, str]:
        """Return the content of each owner node of *group*, by topic and partition."""
        start = f"/consumers/{group}/owners/"
        return {
            path.removeprefix(start): content.decode()
            for path, (content, session) in self.found.items()
            if path.startswith(start) and session is not None
        }

    def _answer(self, request: Any, session: str) -> Any:
        if isinstance(request, Create | Write | Delete):
            self.changes += 1
        match request:
            case Read(path):
                if path not in self.found:
                    return None
                content, owner = self.found[path]
                return Node(content, ephemeral=owner is not None, mine=owner == session)
            case Children(path):
                below = [each.removeprefix(f"{path}/") for each in self.found if each.startswith(f"{path}/")]
                return sorted({each.split("/")[0] for each in below}) or ([] if path in self.found else None)
            case Create(path, content, ephemeral):
                if path in self.found:
                    raise NodeExistsError(path)
                self.found[path] = (content, session if ephemeral else None)
                return None
            case Write(path, content):
                if path not in self.found:
                    raise NoNodeError(path)
                self.found[path] = (content, self.found[path][1])
                return 1
            case Delete(path, children=children):
                below = [each for each in self.found if children and each.startswith(f"{path}/")]
                for each in below:
                    del self.found[each]
                return self.found.pop(path, None) is not None or bool(below)
            case RegistryPause():
                return None
        raise AssertionError(request)
