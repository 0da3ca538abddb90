"""The alert rules and the dashboard that are shipped: promtool accepts them, each alert fires when
it should, and every metric and every fault in them is one that the services tell of."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from deniable.aggregator.operations.metrics import aggregator_metrics
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.cli import cli
from deniable.proxy.collecting.collector import Collector
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.operations.metrics import proxy_metrics
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings as ProxyProcessSettings
from deniable.service.faults import FAULTS
from toolkit.crowds import RING

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "deploy" / "monitoring"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in PANELS for target in panel["targets"]
]


def promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        if os.environ.get("DENIABLE_REQUIRE_PROMTOOL"):
            pytest.fail("promtool is not installed: .ci/promtool installs it")
        pytest.skip("promtool is not installed: .ci/promtool installs it")
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=60, check=False, cwd=FOLDER
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yml")
    assert "is valid" in promtool("check", "config", "prometheus.yml")


@pytest.mark.slow
def test_each_alert_is_silent_before_and_fires_after() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts.test.yml")
    tested: dict[str, list[bool]] = {}
    for case in yaml.safe_load((FOLDER / "alerts.test.yml").read_text())["tests"]:
        for each in case["alert_rule_test"]:
            tested.setdefault(each["alertname"], []).append(bool(each["exp_alerts"]))
    assert tested == {name: [False, True] for name in ALERTS}


def test_the_dashboards_expressions_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{i}", "expr": expression} for i, expression in enumerate(EXPRESSIONS)
    ]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    )
    assert f"{len(rules)} rules found" in promtool("check", "rules", tmp_path / "rules.yml")


def test_the_dashboard_has_a_place_a_title_and_a_unit_for_every_panel() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def _exposed(tmp_path: Path) -> set[str]:
    """The names of all metrics that the three services tell of."""
    RING.save(tmp_path / "ring.json")
    (tmp_path / "token").write_text("deniable_token\n")
    proxies = [
        ProxySource(f"http://127.0.0.1:{port}", log=tmp_path / f"{port}.db") for port in (1, 2)
    ]
    service = Service(AggregatorSettings(tmp_path / "state.db", tmp_path / "ring.json", proxies))
    proxy = ProxyService(ProxyProcessSettings(tmp_path / "proxy"))
    collector = Collector(CollectorSettings("http://127.0.0.1:1", tmp_path / "token"))
    try:
        texts = [aggregator_metrics(service), proxy_metrics(proxy), collector.metrics()]
    finally:
        service.stop()
        proxy.start()
        proxy.stop()
        collector.worker.start()
        collector.stop()
    return set(re.findall(r"^# TYPE (\S+) ", b"".join(texts).decode(), flags=re.MULTILINE))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_metric_in_the_rules_and_the_dashboard_is_told_by_a_service(tmp_path: Path) -> None:
    named = {
        name for expression in EXPRESSIONS for name in re.findall(r"\bdeniable_\w+", expression)
    }
    assert named
    assert named <= _exposed(tmp_path)


def _covered(fault: str) -> list[str]:
    found = []
    for name, rule in ALERTS.items():
        match = re.search(r'deniable:fault\{fault=~?"([^"]+)"\}', rule["expr"])
        if match and re.fullmatch(match[1], fault):
            found.append(name)
    return found


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_fault_is_alerted_once_and_has_a_page(fault: str) -> None:
    assert len(_covered(fault)) == 1
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert f"| `{fault}` |" in page


def test_every_alert_leads_to_a_section_of_the_runbook() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text()
    titles = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-") for title in titles}
    for rule in ALERTS.values():
        assert rule["annotations"]["runbook_url"].partition("#")[2] in anchors
        assert rule["labels"]["severity"] in ("page", "ticket")


@pytest.mark.parametrize("page", ["runbook.md", "monitoring.md"])
def test_every_command_of_the_pages_is_one_with_its_options(page: str) -> None:
    for line in re.findall(
        r"^\$ deniable (.+?)(?:\s+#.*|\s+>.*)?$",
        (ROOT / "docs" / page).read_text(),
        flags=re.MULTILINE,
    ):
        step: click.Command = cli
        words = shlex.split(line)
        while isinstance(step, click.Group):
            found = step.get_command(click.Context(step), words.pop(0))
            assert found is not None, line
            step = found
        options = {name for parameter in step.params for name in parameter.opts}
        arguments = [
            parameter for parameter in step.params if isinstance(parameter, click.Argument)
        ]
        assert {word for word in words if word.startswith("--")} <= options, line
        assert len([word for word in words if not word.startswith("-")]) >= len(arguments), line
