"""Mirrors, which copy topics from one or several clusters to another cluster, and audits, which compare the
topics of two clusters."""

from pyklient.mirror.cluster_audit import AuditRow, Contents, audit
from pyklient.mirror.group_translation import TranslatedOffset, translate_offsets
from pyklient.mirror.mirror import Mirror
from pyklient.mirror.mirror_metrics import MirrorMetrics
from pyklient.mirror.producer_record import Handler, ProducerRecord

__all__ = [
    "AuditRow",
    "Contents",
    "Handler",
    "Mirror",
    "MirrorMetrics",
    "ProducerRecord",
    "TranslatedOffset",
    "audit",
    "translate_offsets",
]
