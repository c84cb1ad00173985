"""A client of a mirror's target cluster, which also tells the ids of topics."""

from pyklient.admin import Admin, topics

__all__ = ["TargetAdmin"]


class TargetAdmin(Admin):
    """An Admin that tells the ids of topics (KIP-516). A topic that was deleted and created again has another
    id."""

    def topic_ids(self, timeout: float | None = None) -> dict[str, str | None]:
        """Return the id of each topic. It is None with brokers before 2.8."""
        return self._play(topics.list_topic_ids(), timeout)
