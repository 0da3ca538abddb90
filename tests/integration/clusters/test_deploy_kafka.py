"""The brokers' settings and the rules of examples/deploy/kafka on a real broker: who may do what,
over TLS and with passwords."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.devtools.broker import Broker
from deniable.errors import LogError, ServiceError
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import KafkaShareLog
from deniable.proxy.settings import read_settings
from deniable.wire.blocks import Block, cut
from toolkit.servers.brokers import require_kafka

DEPLOY = Path(__file__).parents[3] / "examples" / "deploy"
CLUSTER = "deniableExampleCluster"


class DeployedBroker(Broker):
    """A broker with the settings of the examples, filled in as start.sh does, on loopback."""

    secrets: Path

    def _write_properties(self) -> None:
        text = (DEPLOY / "kafka" / "server.properties").read_text()
        filled = {
            "NODE_ID": "1",
            "VOTERS": "1@127.0.0.1:9093",
            "HOST": "127.0.0.1",
            "OUTSIDE": "127.0.0.1",
            "REPLICATION": "1",
        }
        filled |= {"IN_SYNC": "1", "SECRETS": str(self.secrets), "DATA": str(self.data / "log")}
        for name, value in filled.items():
            text = text.replace(f"@{name}@", value)
        ports = {
            9094: self._secured,
            9096: self._port,
            9093: self._controller,
            9095: self._internal,
        }
        for written, free in ports.items():
            text = re.sub(rf"(://[0-9.]*|127\.0\.0\.1):{written}\b", rf"\g<1>:{free}", text)
        text = text.replace("://:", "://127.0.0.1:")  # a test is nobody else's business
        (self.data / "server.properties").write_text(text)

    def _choose_ports(self) -> None:
        super()._choose_ports()
        first = (self._port, self._controller, self._secured)
        super()._choose_ports()
        self._internal, self._port, self._controller, self._secured = self._port, *first

    def _format(self, libraries: Path) -> None:
        """As start.sh does: with the administrator's password."""
        password = (self.secrets / "admin.password").read_text().strip()
        told = [
            "format",
            "--ignore-formatted",
            "-t",
            CLUSTER,
            "-c",
            str(self.data / "server.properties"),
        ]
        told += ["--add-scram", f"SCRAM-SHA-512=[name=admin,password={password}]"]
        command = self._command(libraries, "kafka.tools.StorageTool", *told)
        subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - our own command


def client(broker: Broker, secrets: Path, user: str, topic: str = "-") -> KafkaSettings:
    """The table of the example for compose, with the address and the folder of this test."""
    example = read_settings(DEPLOY / "compose" / "proxy-1.toml").kafka
    assert example is not None
    options = {**example.options, "sasl.username": user, "ssl.ca.location": str(secrets / "ca.crt")}
    place = {"sasl.password": f"file:{secrets / f'{user}.password'}"}
    return KafkaSettings(broker.secure_bootstrap, topic, 2, 1, options, place)


def apply_rules(admin: Any) -> int:
    """What acls.sh says, given to the broker; how many rules there were."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415 - an extra
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    bindings = []
    for line in re.findall(
        r"^allow (.*)$", (DEPLOY / "kafka" / "acls.sh").read_text(), re.MULTILINE
    ):
        user, *words = line.split()
        pairs = list(zip(words[::2], words[1::2], strict=True))
        ((kind, name),) = [(what, value) for what, value in pairs if what != "--operation"]
        resource = {
            "--topic": ResourceType.TOPIC,
            "--transactional-id": ResourceType.TRANSACTIONAL_ID,
        }[kind]
        for what, operation in pairs:
            if what == "--operation":
                chosen = AclOperation[operation.upper()]
                allowed = AclPermissionType.ALLOW
                bindings.append(
                    AclBinding(
                        resource, name, ResourcePatternType.LITERAL, user, "*", chosen, allowed
                    )
                )
    for future in admin.create_acls(bindings).values():
        future.result(10)
    return len(bindings)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    require_kafka()
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415 - an extra
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    folder = tmp_path_factory.mktemp("deployed")
    secrets = folder / "secrets"
    subprocess.run([DEPLOY / "make-secrets.sh", secrets], check=True, capture_output=True)  # noqa: S603 - our own script
    DeployedBroker.secrets = secrets
    with DeployedBroker(folder / "data") as broker:
        admin: Any = AdminClient(client(broker, secrets, "admin").client())
        users = re.findall(
            r"^user (\S+)$", (DEPLOY / "kafka" / "acls.sh").read_text(), re.MULTILINE
        )
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        changes = [
            UserScramCredentialUpsertion(
                user, kind, (secrets / f"{user}.password").read_bytes().strip()
            )
            for user in users
        ]
        for future in admin.alter_user_scram_credentials(changes).values():
            future.result(10)
        assert apply_rules(admin) > 0
        yield broker, secrets


def blocks(channel: int = 7) -> list[Block]:
    rows = np.arange(16, dtype=np.uint64).reshape(8, 2)
    return cut(channel, 0, 0, rows, 1)[0]


def test_each_proxy_writes_its_own_topic_and_the_aggregator_reads_both(
    deployed: tuple[Broker, Path],
) -> None:
    broker, secrets = deployed
    for proxy in ("proxy-1", "proxy-2"):
        log = KafkaLog(client(broker, secrets, proxy, f"deniable.{proxy}"), retention=3600)
        log.append(blocks(), now=1_700_000_000, marks={7: 1})
        log.close()
        # and starts again on what it wrote
        again = KafkaLog(client(broker, secrets, proxy, f"deniable.{proxy}"), retention=3600)
        again.close()
        reader = KafkaShareLog(client(broker, secrets, "aggregator", f"deniable.{proxy}"))
        reading = reader.read((), 1 << 20)
        reader.close()
        assert reading.problem == ""
        assert [len(Block.from_bytes(content)) for content in reading.blocks] == [2]
        assert {(mark.partition, mark.epoch) for mark in reading.marks} == {(0, 1), (1, 1)}


@pytest.mark.parametrize(
    ("user", "topic"),
    [("proxy-1", "deniable.proxy-2"), ("aggregator", "deniable.proxy-1"), ("proxy-1", "other")],
)
def test_nobody_writes_what_is_not_theirs(
    user: str, topic: str, deployed: tuple[Broker, Path]
) -> None:
    broker, secrets = deployed
    with pytest.raises((LogError, ServiceError), match=r"(?i)authoriz|not allowed|denied"):
        KafkaLog(client(broker, secrets, user, topic), retention=3600)


@pytest.mark.parametrize("topic", ["deniable.proxy-2", "deniable.proxy-2.memory"])
def test_a_proxy_cannot_read_the_shares_of_the_other(
    topic: str, deployed: tuple[Broker, Path]
) -> None:
    broker, secrets = deployed
    reader = KafkaShareLog(client(broker, secrets, "proxy-1", topic))
    reading = reader.read((), 1 << 20)
    reader.close()
    assert reading.blocks == []
    assert re.search("(?i)authoriz|not allowed|denied|no topic", reading.problem), reading.problem


def test_a_wrong_password_and_a_strange_authority_are_turned_away(
    deployed: tuple[Broker, Path], tmp_path: Path
) -> None:
    import confluent_kafka  # noqa: PLC0415 - an extra
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    broker, secrets = deployed
    honest = client(broker, secrets, "aggregator").client()
    subprocess.run([DEPLOY / "make-secrets.sh", tmp_path], check=True, capture_output=True)  # noqa: S603 - our own script
    assert set(AdminClient(honest).list_topics(timeout=20).brokers) == {1}
    for changes in ({"sasl.password": "guess"}, {"ssl.ca.location": str(tmp_path / "ca.crt")}):
        with pytest.raises(confluent_kafka.KafkaException):
            AdminClient({**honest, **changes}).list_topics(timeout=2)
