"""Why an upload is refused: what its token, its quota and its earlier messages allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deniable.errors import RefusedError
from deniable.proxy.intake.commits import Upload
from deniable.queries.channels import Channel
from deniable.service.tokens import Bound

__all__ = ["changed", "check_bound", "disk_full", "over_quota", "over_uses"]


def changed(n: int) -> RefusedError:
    """The refusal of message ids that were sent before with a different share."""
    return RefusedError(
        "changed", 409, f"{n} of the message ids were sent before with a different share"
    )


def disk_full() -> RefusedError:
    """The refusal of everything while there is no room to write it down."""
    return RefusedError("disk_full", 503, "The proxy's disk is full; retry later.", retry_after=30)


def over_quota(
    upload: Upload, channel: Channel, epoch: int, used: int, n_new: int, now: int
) -> RefusedError | None:
    """The refusal of more messages in an epoch than the upload's token may send; None if it may
    send them."""
    allowed = channel.most_messages if upload.quota is None else upload.quota
    if not n_new or used + n_new <= allowed:
        return None
    wait = max(1, channel.schedule.end_of_epoch(epoch) - now)
    rule = f"at most {allowed} messages per epoch are accepted under one token"
    return RefusedError(
        "quota", 429, f"{rule}, and this upload would make it {used + n_new}", retry_after=wait
    )


def over_uses(upload: Upload, used: int, n_new: int) -> RefusedError | None:
    """The refusal of more messages than a bound token is good for; None if it is good for them."""
    most = None if upload.bound is None else upload.bound.uses
    if most is None or not n_new or used + n_new <= most:
        return None
    return RefusedError("token_used", 403, f"this token was good for {most} messages in all")


def check_bound(
    bound: Bound, channels: Iterable[int], channel_of: Mapping[str, int], now: int
) -> None:
    """Refuse what a bound token is not good for; `channel_of` has the channel of each query."""
    if bound.ends is not None and now >= bound.ends:
        raise RefusedError("token_ended", 403, "this token was good for a time that is over")
    if any(channel != channel_of.get(bound.query) for channel in channels):
        raise RefusedError(
            "token_query", 403, f"this token is good for the query {bound.query!r} alone"
        )
