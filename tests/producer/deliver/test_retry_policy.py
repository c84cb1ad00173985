"""Decisions about a batch after an error: every combination that RetryPolicy distinguishes."""

import pytest

from pyklient.config import ProducerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, ClosedError, KafkaError, broker_error
from pyklient.kernel import Batch
from pyklient.net.backoff import Backoff
from pyklient.producer.deliver.retry_policy import Action, RetryPolicy, is_certainly_not_stored
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.producer.deliver.sequences import NO_IDENTITY, BatchIdentity
from pyklient.producer.delivery_tracker import DeliveryTracker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.protocol.records import Compression

RETRIES = 2
WITH_ID = BatchIdentity(7, 0, 0)
WITHOUT_ID = NO_IDENTITY


def policy(**options: object) -> RetryPolicy:
    config = ProducerConfig.from_options(
        {"bootstrap_servers": "localhost:9092", "retries": RETRIES, **options}
    )
    return RetryPolicy(config, Backoff(0.1, 1.0))


def sealed(identity: BatchIdentity, *, count: int = 2, attempts: int = 1) -> SealedBatch:
    batch = Batch(DeliveryTracker(SenderThread("pyklient-producer test")), "clicks", 0, 0.0)
    sealed = SealedBatch(batch, 0, count, b"", Compression.NONE, (0, 0), 62)
    sealed.identity = identity
    sealed.attempts = attempts
    return sealed


@pytest.mark.parametrize(
    ("code", "identity", "action"),
    [
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, WITH_ID, Action.STORED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, WITH_ID, Action.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, WITHOUT_ID, Action.RETRY),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, WITH_ID, Action.RETRY_IN_SEQUENCE),
        (ErrorCode.UNKNOWN_PRODUCER_ID, WITH_ID, Action.RETRY_IN_SEQUENCE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, WITH_ID, Action.RETRY_IN_SEQUENCE),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, WITHOUT_ID, Action.FAIL),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, WITH_ID, Action.RETRY_WITHOUT_IDEMPOTENCE),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, WITHOUT_ID, Action.FAIL),
        (ErrorCode.MESSAGE_TOO_LARGE, WITH_ID, Action.SPLIT),
        (ErrorCode.RECORD_LIST_TOO_LARGE, WITHOUT_ID, Action.SPLIT),
        (ErrorCode.INVALID_RECORD, WITH_ID, Action.FAIL),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, WITH_ID, Action.FAIL),
    ],
)
def test_the_error_code_decides(code: ErrorCode, identity: BatchIdentity, action: Action) -> None:
    assert policy().after_error_code(sealed(identity), code) is action


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_batch_is_retried_as_often_as_retries_allows(code: ErrorCode) -> None:
    actions = [policy().after_error_code(sealed(WITH_ID, attempts=attempts), code) for attempts in (2, 3)]
    assert actions[0] in (Action.RETRY, Action.RETRY_IN_SEQUENCE)
    assert actions[1] is Action.FAIL


def test_idempotence_that_the_user_requires_is_not_given_up() -> None:
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert policy(enable_idempotence=True).after_error_code(sealed(WITH_ID), code) is Action.FAIL


def test_a_batch_is_not_split_if_it_has_one_record_has_expired_or_may_be_stored_whole() -> None:
    single, expired, doubtful = sealed(WITH_ID, count=1), sealed(WITH_ID), sealed(WITH_ID)
    expired.expired = doubtful.in_doubt = True
    for batch in (single, expired, doubtful):
        assert policy().after_error_code(batch, ErrorCode.MESSAGE_TOO_LARGE) is Action.FAIL
    doubtful.identity = WITHOUT_ID
    assert policy().after_error_code(doubtful, ErrorCode.MESSAGE_TOO_LARGE) is Action.SPLIT


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (BrokerConnectionError("cut"), Action.RETRY),
        (ClosedError("the connection was idle"), Action.RETRY),
        (KafkaError("unexpected"), Action.FAIL),
        (broker_error(ErrorCode.SASL_AUTHENTICATION_FAILED), Action.FAIL),
    ],
)
def test_a_failure_without_a_response_is_retried_if_it_may_pass(error: KafkaError, action: Action) -> None:
    assert policy().after_failure(sealed(WITH_ID), error) is action
    assert policy().after_failure(sealed(WITH_ID, attempts=RETRIES + 1), error) is Action.FAIL


def test_a_leader_that_steps_down_may_have_stored_the_records() -> None:
    assert is_certainly_not_stored(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not is_certainly_not_stored(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert not is_certainly_not_stored(ErrorCode.NOT_LEADER_OR_FOLLOWER)
