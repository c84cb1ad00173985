"""The headers of requests and responses, and the first requests on a connection: API versions and SASL
login."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Bytes,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    always,
    message,
    since,
    struct,
    tagged,
)

__all__ = [
    "RequestHeader",
    "ResponseHeader",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
]


@message(versions=(0, 2), flexible=2)
class RequestHeader(ApiMessage):
    """The header of every request. Flexible requests have version 2, all others version 1 (version 0 has no
    client id)."""

    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: String | None = since(1, compact=False)


@message(versions=(0, 1), flexible=1)
class ResponseHeader(ApiMessage):
    """The header of every response. Flexible responses except ApiVersions have version 1, all others version
    0."""

    correlation_id: Int32 = 0


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(ApiMessage):
    """Ask a broker for the requests that it supports. From version 3 on, the request names the client's
    software (KIP-511)."""

    client_software_name: String = since(3, ignorable=True)
    client_software_version: String = since(3, ignorable=True)


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(ApiMessage):
    """The versions of each request that a broker supports, by API key, and the features of its cluster."""

    @struct
    class ApiVersion(Struct):
        api_key: Int16 = 0
        min_version: Int16 = 0
        max_version: Int16 = 0

    @struct
    class SupportedFeatureKey(Struct):
        name: String = since(3)
        min_version: Int16 = since(3)
        max_version: Int16 = since(3)

    @struct
    class FinalizedFeatureKey(Struct):
        name: String = since(3)
        max_version_level: Int16 = since(3)
        min_version_level: Int16 = since(3)

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = EMPTY
    throttle_time_ms: Int32 = since(1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = tagged(0, since=3, ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = tagged(2, since=3, ignorable=True)
    zk_migration_ready: Boolean = tagged(3, since=3, ignorable=True)


@message(key=17, versions=(0, 1))
class SaslHandshakeRequest(ApiMessage):
    """Propose a SASL mechanism.

    After a request of version 0, the client sends SASL tokens without a request around them. After a request
    of version 1, it sends them in SaslAuthenticate requests.
    """

    mechanism: String = ""


@message(key=17, versions=(0, 1))
class SaslHandshakeResponse(ApiMessage):
    """Accept the SASL mechanism that the client has proposed, or name the supported mechanisms."""

    error_code: Int16 = 0
    mechanisms: list[String] = EMPTY


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(ApiMessage):
    """One token that the client sends during the SASL login."""

    auth_bytes: Bytes = always(secret=True)


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(ApiMessage):
    """One token that the broker sends during the SASL login. The lifetime of the session is 0 if it has no
    limit."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = always(secret=True)
    session_lifetime_ms: Int64 = since(1, ignorable=True)
