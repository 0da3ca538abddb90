"""A check of a Kafka topic before a service starts, within a few seconds."""

from __future__ import annotations

from deniable.errors import LogError, ParameterError
from deniable.logs.kafka_settings import KafkaSettings, require_client

__all__ = ["check_topic"]


def check_topic(settings: KafkaSettings, seconds: float) -> bool:
    """Whether the topic exists; raises if the cluster is unusable or the topic has a different
    number of partitions."""
    require_client()
    from deniable.logs.kafka_reader import TopicKeeper  # noqa: PLC0415 - an extra

    try:
        keeper = TopicKeeper(settings)
        keeper.knock(seconds)
        topic = keeper.look(settings.topic)
    except LogError as error:
        raise ParameterError("bootstrap", settings.bootstrap, f"is not usable: {error}") from None
    if topic is None:
        return False
    if topic.n_partitions != settings.partitions:
        raise ParameterError(
            "partitions",
            settings.partitions,
            f"must be {topic.n_partitions}, as many as the topic has",
        )
    return True
