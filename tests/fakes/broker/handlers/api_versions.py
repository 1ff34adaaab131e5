"""ApiVersions: supported versions and finalized features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_PRODUCE = 0


def handler(others: Mapping[int, Handler]) -> Handler:
    """Return the handler that advertises these versions, capped by the cluster's `newest_versions`."""

    def handle(state: ClusterState, asked: HandledRequest) -> Any:
        offered = [
            ApiVersionsResponse.ApiVersion(
                api_key=api,
                # Kafka 4 advertises versions of Produce that it rejects (KAFKA-18659).
                min_version=0 if api == _PRODUCE else one.versions[0],
                max_version=state.newest_versions.get(api, one.versions[1]),
            )
            for api, one in sorted({**others, ApiVersionsRequest.API_KEY: itself}.items())
        ]
        level = state.transaction_level
        features = []
        if level:
            features.append(
                ApiVersionsResponse.FinalizedFeatureKey(
                    name="transaction.version", min_version_level=level, max_version_level=level
                )
            )
        return ApiVersionsResponse(
            error_code=asked.error(),
            api_keys=offered,
            supported_features=[],
            finalized_features_epoch=1,
            finalized_features=features,
        )

    itself = Handler(ApiVersionsRequest, ApiVersionsResponse, (0, 4), handle)
    return itself
