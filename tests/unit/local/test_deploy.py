"""The examples of deployment say what is there: schemas, settings, commands, ports, secrets and
paths agree with each other."""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_jsonschema
import click
import jsonschema
import kubernetes_validate
import pytest
import yaml

from deniable.aggregator.settings import read_settings as read_aggregator
from deniable.cli import cli
from deniable.cli.output import output_format
from deniable.devtools.broker import KAFKA_VERSION
from deniable.proxy.settings import read_settings as read_proxy

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "examples" / "deploy"
PARTS = ("proxy", "aggregator", "kafka")
KUBERNETES = ("1.29", "1.35")
PROPERTIES = dict(
    line.split("=", 1)
    for line in (DEPLOY / "kafka" / "server.properties").read_text().splitlines()
    if line and line[0] != "#"
)


def kustomization(part: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((DEPLOY / part / "kustomization.yaml").read_text())
    return tree


def objects(part: str) -> list[dict[str, Any]]:
    """Everything that is applied for a part: its resources, and the ConfigMaps that are made of its
    files."""
    told = kustomization(part)
    found = [
        each
        for name in told["resources"]
        for each in yaml.safe_load_all((DEPLOY / part / name).read_text())
    ]
    for generator in told["configMapGenerator"]:
        data = {name: (DEPLOY / part / name).read_text() for name in generator["files"]}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": generator["name"]},
                "data": data,
            }
        )
    return found


def of_kind(part: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in objects(part) if each["kind"] == kind]


def pod(part: str) -> dict[str, Any]:
    (stateful,) = of_kind(part, "StatefulSet")
    spec: dict[str, Any] = stateful["spec"]["template"]["spec"]
    return spec


def container(part: str) -> dict[str, Any]:
    (found,) = pod(part)["containers"]
    return dict(found)


def brought(part: str) -> dict[tuple[str, str], set[str]]:
    """What `secrets.sh` makes: the keys of each secret and ConfigMap, by kind and name."""
    text = (DEPLOY / part / "secrets.sh").read_text().replace("\\\n", " ")
    found = {}
    for line in re.findall(r"^kubectl .* create (.*)$", text, re.MULTILINE):
        words = line.split()
        keys = set(re.findall(r"--from-file=([^=\s]+)=", line)) | (
            {"tls.crt", "tls.key"} if words[:2] == ["secret", "tls"] else set()
        )
        kind, name = ("configMap", words[1]) if words[0] == "configmap" else ("secret", words[2])
        found[kind, name] = keys
    return found


def mounted(part: str) -> dict[str, set[str] | None]:
    """Each folder that the container sees, and the files in it; None for what it may write."""
    generated = {each["metadata"]["name"]: set(each["data"]) for each in of_kind(part, "ConfigMap")}
    volumes: dict[str, set[str] | None] = {}
    for volume in pod(part)["volumes"]:
        if "emptyDir" in volume:
            volumes[volume["name"]] = None
        elif "secret" in volume:
            volumes[volume["name"]] = brought(part)["secret", volume["secret"]["secretName"]]
        else:
            name = volume["configMap"]["name"]
            volumes[volume["name"]] = (
                generated[name] if name in generated else brought(part)["configMap", name]
            )
    (stateful,) = of_kind(part, "StatefulSet")
    volumes.update(
        {claim["metadata"]["name"]: None for claim in stateful["spec"]["volumeClaimTemplates"]}
    )
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container(part)["volumeMounts"]}


def paths(tree: Any) -> Iterator[str]:
    """All absolute paths in settings."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from paths(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from paths(value)
    elif isinstance(tree, str) and tree.removeprefix("file:").startswith("/"):
        yield tree.removeprefix("file:")


def assert_command(arguments: list[str]) -> Path:
    """The words are a command of ours and its argument; gives the argument."""
    step: click.Command = cli
    *words, last = arguments
    for word in words:
        assert isinstance(step, click.Group), arguments
        found = step.get_command(click.Context(step), word)
        assert found is not None, f"there is no {' '.join(words)}"
        step = found
    assert sum(isinstance(each, click.Argument) for each in step.params) == 1
    return Path(last)


# --- Kubernetes


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("part", PARTS)
def test_every_object_is_one_that_kubernetes_knows_field_by_field(part: str, version: str) -> None:
    for each in objects(part):
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_refuse_what_is_misspelt() -> None:
    (wrong,) = of_kind("proxy", "StatefulSet")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


@pytest.mark.parametrize("part", [*PARTS, "spark"])
def test_kustomize_builds_it(part: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run(  # noqa: S603
        ["kubectl", "kustomize", DEPLOY / part],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    found = list(yaml.safe_load_all(built.stdout))
    applied = objects("aggregator" if part == "spark" else part)
    assert sorted(each["kind"] for each in found) == sorted(each["kind"] for each in applied)
    for each in found:
        kubernetes_validate.validate(each, KUBERNETES[-1], strict=True)
    namespace = kustomization(part)["namespace"]
    assert {each["metadata"].get("namespace", namespace) for each in found} == {namespace}


@pytest.mark.parametrize("part", PARTS)
def test_pods_have_no_rights_and_write_only_where_they_must(part: str) -> None:
    context, own = pod(part)["securityContext"], container(part)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (
        own["allowPrivilegeEscalation"],
        own["readOnlyRootFilesystem"],
        own["capabilities"],
    ) == (
        False,
        True,
        {"drop": ["ALL"]},
    )
    assert pod(part)["automountServiceAccountToken"] is False
    writable = {path for path, files in mounted(part).items() if files is None}
    for mount in container(part)["volumeMounts"]:
        assert mount.get("readOnly", False) is (mount["mountPath"] not in writable), mount
    assert {"requests", "limits"} <= set(container(part)["resources"])
    (namespace,) = of_kind(part, "Namespace")
    assert namespace["metadata"]["name"] == kustomization(part)["namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("part", PARTS)
def test_budgets_services_and_policies_choose_the_pods_that_there_are(part: str) -> None:
    (stateful,) = of_kind(part, "StatefulSet")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    chosen = [each["spec"]["selector"] for each in of_kind(part, "Service")]
    chosen += [
        each["spec"]["selector"]["matchLabels"] for each in of_kind(part, "PodDisruptionBudget")
    ]
    chosen += [
        each["spec"]["podSelector"]["matchLabels"]
        for each in of_kind(part, "NetworkPolicy")
        if each["spec"]["podSelector"]
    ]
    chosen.append(stateful["spec"]["selector"]["matchLabels"])
    assert len(chosen) >= 4
    for selector in chosen:
        own = {
            name: value
            for name, value in selector.items()
            if not name.startswith("statefulset.kubernetes.io")
        }
        assert own
        assert own.items() <= labels.items()
    pods = {f"{stateful['metadata']['name']}-{i}" for i in range(stateful["spec"]["replicas"])}
    named = {name for each in chosen if (name := each.get("statefulset.kubernetes.io/pod-name"))}
    assert named in (set(), pods)
    assert stateful["spec"]["serviceName"] in {
        each["metadata"]["name"] for each in of_kind(part, "Service")
    }


@pytest.mark.parametrize("part", PARTS)
def test_ports_have_one_name_and_one_number_everywhere(part: str) -> None:
    ports = {each["name"]: each["containerPort"] for each in container(part)["ports"]}
    for service in of_kind(part, "Service"):
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container(part)[name]
        assert probe.get("httpGet", probe.get("tcpSocket"))["port"] in ports
    for policy in of_kind(part, "NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            assert {port["port"] for port in rule["ports"]} <= {*ports, *ports.values()}
    if part == "kafka":
        listening = dict(re.findall(r"([A-Z]+)://:(\d+)", PROPERTIES["listeners"]))
        assert {name.lower(): int(port) for name, port in listening.items()} == ports
        return
    settings = tomllib.loads((DEPLOY / part / f"{part}.toml").read_text())
    assert ports == {"https": settings["port"]}
    for name, path in {
        "startupProbe": "/healthz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }.items():
        assert container(part)[name]["httpGet"] == {
            "path": path,
            "port": "https",
            "scheme": "HTTPS",
        }


def test_settings_are_read_by_the_services_themselves_and_every_path_in_them_is_mounted() -> None:
    for part in ("proxy", "aggregator"):
        file = assert_command(container(part)["args"])
        folders = mounted(part)
        assert file.name in (folders[str(file.parent)] or ())
        tree = tomllib.loads((DEPLOY / part / file.name).read_text())
        found = list(paths(tree))
        assert len(found) >= 6
        for path in found:
            inside = {folder for folder in folders if path.startswith(f"{folder}/")}
            assert inside, f"{path} is not mounted in {part}"
            (folder,) = inside
            files = folders[folder]
            assert files is None or Path(path).name in files, f"{path}: secrets.sh brings {files}"
    proxy = read_proxy(DEPLOY / "proxy" / "proxy.toml")
    aggregator = read_aggregator(DEPLOY / "aggregator" / "aggregator.toml")
    assert proxy.kafka is not None
    topics = {each.kafka.topic: each.kafka for each in aggregator.proxies if each.kafka}
    assert topics[proxy.kafka.topic].partitions == proxy.kafka.partitions
    assert proxy.kafka.replication == of_kind("kafka", "StatefulSet")[0]["spec"]["replicas"]
    assert aggregator.limits.patience > proxy.intake.grace
    for each in (proxy.kafka, *topics.values()):
        assert each.options["security.protocol"] == "SASL_SSL"
        assert "sasl.password" in each.secrets
        assert "enable.ssl.certificate.verification" not in each.options


def test_spark_counts_beside_the_aggregator_with_the_same_settings_and_rights() -> None:
    plain, spark = (
        tomllib.loads((DEPLOY / part / "aggregator.toml").read_text())
        for part in ("aggregator", "spark")
    )
    assert spark == {**plain, "engine": "spark", "spark": spark["spark"]}
    settings = read_aggregator(DEPLOY / "spark" / "aggregator.toml")
    patch = yaml.safe_load((DEPLOY / "spark" / "driver.yaml").read_text())
    (stateful,) = of_kind("aggregator", "StatefulSet")
    assert (patch["kind"], patch["metadata"]) == (
        stateful["kind"],
        {"name": stateful["metadata"]["name"]},
    )
    (driver,) = patch["spec"]["template"]["spec"]["containers"]
    group = cli.get_command(click.Context(cli), driver["args"][0])
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), driver["args"][1])
    assert command is not None
    made = command.make_context("submit", driver["args"][2:])
    given = made.params
    with made:
        assert (str(given["settings"]), output_format()) == (
            "/etc/deniable/settings/aggregator.toml",
            "json",
        )
    assert settings.spark is not None
    assert given["master"] == f"local[{settings.spark.shuffle_partitions}]"
    served = container("aggregator")
    assert driver["securityContext"] == served["securityContext"]
    assert driver["volumeMounts"] == served["volumeMounts"]
    assert settings.spark.checkpoint.startswith("/var/lib/deniable/")
    stateful["spec"]["template"]["spec"]["containers"].append(driver)
    kubernetes_validate.validate(stateful, KUBERNETES[-1], strict=True)


def test_what_kafka_mounts_is_what_its_start_needs() -> None:
    folders = mounted("kafka")
    assert container("kafka")["command"] == ["/bin/sh", "/etc/deniable/start.sh"]
    assert {"start.sh", "server.properties", "acls.sh"} <= (folders["/etc/deniable"] or set())
    needed = set(
        re.findall(r"@SECRETS@/(\S+)", (DEPLOY / "kafka" / "server.properties").read_text())
    ) | {"admin.password"}
    needed |= {
        f"{user}.password"
        for user in re.findall(
            r"^user (\S+)$", (DEPLOY / "kafka" / "acls.sh").read_text(), re.MULTILINE
        )
    }
    assert folders["/run/secrets/kafka"] == needed
    blanks = set(re.findall(r"@([A-Z_]+)@", (DEPLOY / "kafka" / "server.properties").read_text()))
    assert blanks == set(re.findall(r"s\|@([A-Z_]+)@", (DEPLOY / "kafka" / "start.sh").read_text()))
    given = {each["name"] for each in container("kafka")["env"]}
    assert blanks - {"NODE_ID", "SECRETS", "DATA"} <= given


def test_the_image_of_kafka_is_the_version_that_the_tests_run() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert (
        container("kafka")["image"]
        == compose["services"]["kafka"]["image"]
        == f"apache/kafka:{KAFKA_VERSION}"
    )


def test_the_aggregator_reaches_kafka_and_the_proxies_and_nobody_else() -> None:
    (policy,) = (
        each for each in of_kind("aggregator", "NetworkPolicy") if each["spec"]["podSelector"]
    )
    for rule in policy["spec"]["egress"]:
        assert rule["to"], "a rule without a destination allows all of them"
        for peer in rule["to"]:
            assert (
                "namespaceSelector" in peer
                or ipaddress.ip_network(peer["ipBlock"]["cidr"]).num_addresses == 1
            )
    for rule in policy["spec"]["ingress"]:
        assert all("ipBlock" not in peer for peer in rule["from"]), (
            "devices are outside: they must not come in"
        )
    (proxy,) = (each for each in of_kind("proxy", "NetworkPolicy") if each["spec"]["podSelector"])
    ports = {port["port"] for rule in proxy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53, 9094}
    for part in PARTS:
        (closed,) = (
            each for each in of_kind(part, "NetworkPolicy") if not each["spec"]["podSelector"]
        )
        assert closed["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


# --- compose and the image


def compose() -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return tree


def test_the_compose_file_is_what_the_compose_specification_describes() -> None:
    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text())
    jsonschema.validate(compose(), schema)
    wrong = compose()
    wrong["services"]["proxy-1"]["readonly"] = True
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("name", ["proxy-1", "proxy-2", "aggregator"])
def test_a_service_of_compose_has_its_settings_its_secrets_and_its_port(name: str) -> None:
    service = compose()["services"][name]
    file = assert_command(service["command"])
    source = next(
        mount.split(":")[0] for mount in service["volumes"] if mount.split(":")[1] == str(file)
    )
    settings = (read_aggregator if name == "aggregator" else read_proxy)(DEPLOY / source)
    tree = tomllib.loads((DEPLOY / source).read_text())
    targets = {f"/run/secrets/{secret['target']}" for secret in service["secrets"]}
    writable = {mount.split(":")[1] for mount in service["volumes"] if not mount.endswith(":ro")}
    for path in paths(tree):
        assert path in targets or str(Path(path).parent) in writable, path
    assert targets == {
        *(path for path in paths(tree) if path.startswith("/run/secrets")),
        "/run/secrets/ca.crt",
    }
    (published,) = service["ports"]
    assert published.startswith("127.0.0.1:")
    assert int(published.split(":")[-1]) == settings.port
    assert f"localhost:{settings.port}/readyz" in service["healthcheck"]["test"][-1]
    assert (service["read_only"], service["cap_drop"], service["user"]) == (
        True,
        ["ALL"],
        "10001:10001",
    )


def test_compose_mentions_nothing_that_is_not_there() -> None:
    tree = compose()
    for name, service in tree["services"].items():
        assert {secret["source"] for secret in service["secrets"]} <= set(tree["secrets"]), name
        assert set(service["networks"]) <= set(tree["networks"])
        assert set(service.get("depends_on", [])) <= set(tree["services"])
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (
                (DEPLOY / source).exists() if source.startswith("./") else source in tree["volumes"]
            ), mount
    aggregator = tomllib.loads((DEPLOY / "compose" / "aggregator.toml").read_text())
    for each in aggregator["proxies"]:
        host, port = re.fullmatch(r"https://([a-z0-9-]+):(\d+)", each["name"]).groups()  # type: ignore[union-attr]
        assert host in tree["services"]
        assert int(port) == read_proxy(DEPLOY / "compose" / f"{host}.toml").port
    assert tree["networks"]["shares"] == {"internal": True}
    assert "devices" not in tree["services"]["aggregator"]["networks"]
    blanks = set(re.findall(r"@([A-Z_]+)@", (DEPLOY / "kafka" / "server.properties").read_text()))
    assert blanks - {"DATA"} <= set(tree["services"]["kafka"]["environment"])


def test_the_secrets_of_compose_are_made_by_the_script_but_for_what_only_people_have(
    tmp_path: Path,
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(  # noqa: S603 - our own script
        [DEPLOY / "make-secrets.sh", tmp_path / "secrets"], check=True, capture_output=True
    )
    made = {path.name for path in (tmp_path / "secrets").iterdir()}
    wanted = {Path(secret["file"]).name for secret in compose()["secrets"].values()}
    assert wanted - made == {"ring.json", "proxy-1.token", "proxy-2.token"}
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    for name in ("kafka", "proxy-1", "aggregator"):
        check = ["openssl", "verify", "-CAfile", "ca.crt", f"{name}.crt"]
        subprocess.run(check, cwd=tmp_path / "secrets", check=True, capture_output=True)  # noqa: S603


@pytest.mark.parametrize("folder", [DEPLOY, DEPLOY / "spark"], ids=["deniable", "spark"])
def test_an_image_is_made_of_what_is_there_and_runs_as_the_user_of_the_manifests(
    folder: Path,
) -> None:
    lines = (folder / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    allowed = (folder / "Dockerfile.dockerignore").read_text().split()
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in allowed
    (extras,) = re.findall(r"\"\.\[([a-z,]+)\]\"", "\n".join(lines))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert {f"ENTRYPOINT {json.dumps(list(project['scripts']))}", "USER 10001:10001"} <= set(lines)
    for part in ("proxy", "aggregator"):
        assert pod(part)["securityContext"]["runAsUser"] == 10001


@pytest.mark.parametrize(
    "script", sorted(DEPLOY.rglob("*.sh")), ids=lambda path: str(path.relative_to(DEPLOY))
)
def test_scripts_are_shell_and_stop_at_the_first_failure(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True, capture_output=True)  # noqa: S603, S607
    assert "\nset -eu\n" in script.read_text()
