"""`deniable up` passes on how devices enrol and which pages may use a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.errors import ParameterError, SettingsError
from deniable.local.services import Address, Aggregator, LocalProxy, Services
from deniable.local.up_settings import read_settings as read_up_settings
from deniable.proxy.settings import read_settings
from deniable.queries.signed.key_ring import KeyRing
from deniable.service.http.cross_origin import BrowserRules, CrossOrigin, OpenPaths

QUERY = """
id = "q"
analyst = "City"
sql = "SELECT a FROM t"
proxies = ["http://127.0.0.1:8601", "http://127.0.0.1:8602"]
schedule = { origin = 0, expires = 86400, every = 600, window = 600, slide = 600 }
mechanism = { name = "TwoCoin", p = 0.5, q = 0.5 }
columns = [{ name = "a", buckets = ["x", "y"] }]
"""
UP = """
mode = "services"
query = "q.toml"
[[services.proxies]]
name = "proxy-1"
port = 8601
{tables}
[[services.proxies]]
name = "proxy-2"
port = 8602
"""


def test_enrolment_and_browser_reach_the_settings_of_a_proxy(tmp_path: Path) -> None:
    browser = {"origins": ["https://poll.example"]}
    proxy = LocalProxy(
        "proxy-1", Address(port=1), enrolment={"mode": "invitation"}, browser=browser
    )
    Services(tmp_path, KeyRing(), [proxy], Aggregator(Address(), here=False))
    settings = read_settings(tmp_path / "proxy-1.toml")
    assert settings.browser.origins == ("https://poll.example",)
    assert settings.enrolment.mode == "invitation"


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ('browser = { origins = ["https://poll.example/"] }', "browser.origins"),
        ('enrolment = { mode = "open", per_second = 0 }', "enrolment.per_second"),
        ("browser = { origin = [] }", "did you mean 'origins'"),
    ],
)
def test_a_mistake_in_them_is_named(tmp_path: Path, tables: str, named: str) -> None:
    (tmp_path / "q.toml").write_text(QUERY)
    (tmp_path / "up.toml").write_text(UP.format(tables=tables))
    with pytest.raises(SettingsError) as caught:
        read_up_settings(tmp_path / "up.toml")
    assert named in str(caught.value)
    assert "enrolment.enrolment" not in str(caught.value)


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "https://poll.example/",
            "poll.example",
            "HTTPS://poll.example",
            "https://Poll.example",
            "null",
            "https://*.example",
        ),
        *(
            "http://poll.example",
            "https://poll.example:443",
            "http://localhost:80",
            "https://a:0",
            "https://a:99999",
            "",
        ),
        *("https://poll.example\r\nx: y", "https://user@poll.example"),
    ],
)
def test_what_no_browser_writes_is_no_origin(origin: str) -> None:
    with pytest.raises(ParameterError, match="origins"):
        BrowserRules((origin,))


def test_every_page_may_be_allowed_alone_and_no_page_by_default() -> None:
    assert BrowserRules(("*",)).origins == ("*",)
    with pytest.raises(ParameterError, match="alone"):
        BrowserRules(("*", "https://poll.example"))
    with pytest.raises(ParameterError, match="at most 100"):
        BrowserRules(tuple(f"https://p{i}.example" for i in range(101)))
    paths = OpenPaths({b"/v1/shares": b"POST"})
    assert CrossOrigin.of(BrowserRules(), paths) is None
    everyone = CrossOrigin.of(BrowserRules(("*",)), paths)
    assert everyone is not None
    assert everyone.lines([(b"origin", b"null")]).startswith(b"access-control-allow-origin: *\r\n")
