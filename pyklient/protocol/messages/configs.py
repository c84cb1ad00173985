"""The requests and responses about the configuration of topics and brokers."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)

__all__ = ["DescribeConfigsRequest", "DescribeConfigsResponse"]


@message(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsRequest(ApiMessage):
    """Ask for the configuration of topics (resource type 2) or brokers (4).

    ``configuration_keys`` names the settings; None asks for all of them.
    """

    @struct
    class DescribeConfigsResource(Struct):
        resource_type: Int8 = 0
        resource_name: String = ""
        configuration_keys: list[String] | None = EMPTY

    resources: list[DescribeConfigsResource] = EMPTY
    include_synonyms: Boolean = since(1)
    include_documentation: Boolean = since(3)


@message(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsResponse(ApiMessage):
    """The settings of each topic or broker, with their values and where the values come from."""

    @struct
    class DescribeConfigsResult(Struct):
        @struct
        class DescribeConfigsResourceResult(Struct):
            @struct
            class DescribeConfigsSynonym(Struct):
                name: String = since(1)
                value: String | None = since(1)
                source: Int8 = since(1)

            name: String = ""
            value: String | None = ""
            read_only: Boolean = False
            is_default: Boolean = until(0)
            config_source: Int8 = since(1, default=-1, ignorable=True)
            is_sensitive: Boolean = False
            synonyms: list[DescribeConfigsSynonym] = since(1, ignorable=True)
            config_type: Int8 = since(3, ignorable=True)
            documentation: String | None = since(3, ignorable=True)

        error_code: Int16 = 0
        error_message: String | None = ""
        resource_type: Int8 = 0
        resource_name: String = ""
        configs: list[DescribeConfigsResourceResult] = EMPTY

    DescribeConfigsSynonym = DescribeConfigsResult.DescribeConfigsResourceResult.DescribeConfigsSynonym
    DescribeConfigsResourceResult = DescribeConfigsResult.DescribeConfigsResourceResult

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = EMPTY
