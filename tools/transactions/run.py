"""One run: a chain of stages, faults, and what is wrong in the end."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tools.faults.proxy import FaultProxy
from tools.transactions.brokers import Brokers
from tools.transactions.chain import Chain
from tools.transactions.faults import Faults, NextRequest
from tools.transactions.feed import Feed

__all__ = ["chain_through_faults"]

_MAX_BLOCKS_MS: Final = (20_000, 20_000, 20_000)
_HITS: Final = 0.3
"""The share of the faults that must hit an open transaction."""
_FAULTS_PER_REFUSAL: Final = 20
"""The number of faults for which a broker must refuse at least one commit of a stage that was stopped. A
stage may also give its commit up by itself, if it notices in time that it was stopped."""


def chain_through_faults(
    server: KraftCluster | ReferenceBroker,
    name: str,
    directory: Path,
    *,
    seed: int,
    faults: int,
    messages: int,
    rate: int,
    session_timeout_ms: int = 3_000,
    max_blocks_ms: Sequence[int] = _MAX_BLOCKS_MS,
    say: Callable[[str], object] = print,
) -> list[str]:
    """Pass at least *messages* messages through stages while *faults* faults happen. Return what is
    wrong.

    *rate* messages per second are sent during the faults. The topics begin with *name*. *max_blocks_ms* has
    the ``max_block_ms`` of each stage. In the end, the last topic holds each message once, with the messages
    of each key in their order.
    """
    dice, plan = random.Random(seed), NextRequest()
    direct = server.bootstrap_servers
    with (
        FaultProxy(direct, plan) as proxy,
        Chain(direct, proxy.bootstrap_servers, name, directory, session_timeout_ms, max_blocks_ms) as chain,
    ):
        injected = Faults(chain, Brokers(server), proxy, plan, dice)
        feed = Feed(direct, chain.topics[0], rate)
        try:
            injected.run(faults, say)
            feed.stop(messages)
        finally:
            feed.close()
        problems = injected.problems + chain.finish(feed.sent)
        words = Counter(each.word for program in chain.started for each in program.entries())
        errors = Counter(
            each.more.partition("(")[0]
            for program in chain.started
            for each in program.entries()
            if each.word == "failed"
        )
    refused = injected.zombies["refused"]
    say(
        f"{feed.sent.total()} messages, {len(chain.started)} processes, {words['committed']} transactions "
        f"were committed, {words['aborted'] + words['lost']} aborted. {injected.hits} of {faults} faults hit "
        f"an open transaction. {refused} commits of zombies were refused by a broker, and "
        f"{injected.zombies['given up']} were given up before. Clients were made again after {dict(errors)}"
    )
    if injected.hits < _HITS * faults:
        problems.append(f"only {injected.hits} of {faults} faults hit an open transaction")
    if refused < faults // _FAULTS_PER_REFUSAL:
        problems.append(f"only {refused} commits of zombies were refused")
    return problems
