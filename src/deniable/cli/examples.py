"""The examples at the end of every command's help. A test parses each of them with the command it
belongs to."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

_AT = "--aggregator https://aggregator.example"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "deniable demo",
        "deniable plan --population 20000 --epsilon 1",
        "deniable estimate answers.csv",
    ),
    # --- people
    "vault": ("deniable vault init my.vault",),
    "vault init": ("deniable vault init my.vault",),
    "vault import": ("deniable vault import my.vault --table trips trips.csv",),
    "vault record": ("deniable vault record my.vault trips km=3.5 city=Lyon",),
    "vault keep": ("deniable vault keep my.vault trips --age '90 d'",),
    "vault grant": ("deniable vault grant my.vault trips km",),
    "vault withdraw": ("deniable vault withdraw my.vault trips",),
    "vault show": ("deniable vault show my.vault",),
    "vault sandbox": ("deniable vault sandbox",),
    "client": ("deniable client log my.vault",),
    "client policy": ("deniable client policy my.vault --new", "deniable client policy my.vault"),
    "client answer": ("deniable client answer my.vault query.signed.json",),
    "client upload": ("deniable client upload my.vault",),
    "client once": ("deniable client once my.vault",),
    "client run": ("deniable client run my.vault --every 600",),
    "client log": ("deniable client log my.vault --last 20",),
    "client verify": ("deniable client verify my.vault",),
    "client status": ("deniable client status my.vault",),
    "client enrol": ("deniable client enrol my.vault https://proxy-one.example --invitation CODE",),
    "client conformance": (
        "deniable client conformance client-v1.json -- ./my-client --conformance",
    ),
    "client ui": ("deniable client ui my.vault",),
    # --- analysts
    "plan": (
        "deniable plan --population 20000 --epsilon 1",
        "deniable plan --population 20000 --epsilon 1 --buckets 8 --margin 0.02",
        "deniable plan --population 2000 --epsilon 2 --questions survey.toml",
    ),
    "query": ("deniable query new query.toml", "deniable query check query.toml"),
    "query new": ("deniable query new query.toml --id commute --analyst 'City of Exampleton'",),
    "query check": ("deniable query check query.toml --population 10000",),
    "query plan": ("deniable query plan query.toml --population 10000",),
    "query permit": (
        "deniable query permit trips guest.key.pub --key my.key --end 2027-01-01T00:00:00Z",
    ),
    "query sign": ("deniable query sign query.toml --key my.key",),
    "query publish": (f"deniable query publish query.signed.json {_AT}",),
    "query stop": (f"deniable query stop commute {_AT}",),
    "query list": (f"deniable query list {_AT}",),
    "query versions": (f"deniable query versions commute {_AT}",),
    "query show": ("deniable query show query.signed.json --ring ring.json",),
    "query keygen": ("deniable query keygen my.key --owner 'City of Exampleton'",),
    "rehearse": (
        "deniable rehearse query.toml --windows 8 --scenario dead-proxy --scenario late-phones",
    ),
    "results": (
        f"deniable results commute {_AT}",
        f"deniable results commute {_AT} --follow --json",
    ),
    "history": (
        f"deniable history commute {_AT} --by day",
        f"deniable history commute {_AT} --merge '[0,5)' --margin 0.01",
    ),
    # --- operators
    "aggregator": (
        "deniable aggregator new aggregator.toml",
        "deniable aggregator run aggregator.toml",
    ),
    "aggregator new": (
        "deniable aggregator new aggregator.toml",
        "deniable aggregator new aggregator.toml --port 8443 --certificate chain.pem --key key.pem",
    ),
    "aggregator run": ("deniable aggregator run aggregator.toml",),
    "aggregator check": (
        "deniable aggregator check aggregator.toml --url https://aggregator.example",
    ),
    "aggregator show": ("deniable aggregator show aggregator.toml",),
    "aggregator token": (
        "deniable aggregator token aggregator.toml --analyst 'City of Exampleton' > my.token",
    ),
    "aggregator grant": (
        "deniable aggregator grant aggregator.toml 3f9a --analyst 'Other City' --may read",
    ),
    "aggregator tokens": ("deniable aggregator tokens aggregator.toml",),
    "aggregator revoke": ("deniable aggregator revoke aggregator.toml 3f9a",),
    "aggregator audit": (
        "deniable aggregator audit aggregator.toml",
        "deniable aggregator audit aggregator.toml --verify",
    ),
    "aggregator backup": ("deniable aggregator backup aggregator.toml backups/monday",),
    "aggregator restore": ("deniable aggregator restore backups/monday aggregator.toml --replace",),
    "collector": ("deniable collector new collector.toml", "deniable collector run collector.toml"),
    "collector new": ("deniable collector new collector.toml --proxy https://proxy-one.example",),
    "collector run": ("deniable collector run collector.toml",),
    "collector check": ("deniable collector check collector.toml",),
    "collector show": ("deniable collector show collector.toml",),
    "poll": (
        'deniable poll ask "Have you ever driven drunk?" yes no --population 300',
        "deniable poll new school.toml",
    ),
    "poll ask": (
        'deniable poll ask "Have you ever driven drunk?" yes no --population 300 --margin 12',
    ),
    "poll new": ('deniable poll new school.toml --question "Have you ever cheated?"',),
    "poll check": ("deniable poll check school.toml",),
    "poll open": (
        "deniable poll open school.toml --key council.key --aggregator https://count.example",
    ),
    "poll close": ("deniable poll close school.toml --aggregator https://count.example",),
    "poll results": ("deniable poll results school.toml --aggregator https://count.example",),
    "poll codes": ("deniable poll codes 500 school.toml --link LINK",),
    "poll kit": ("deniable poll kit school.toml --design crosswise",),
    "poll snippet": ("deniable poll snippet school.toml --for limesurvey",),
    "poll poster": ("deniable poll poster school.toml",),
    "poll verify": ("deniable poll verify LINK",),
    "poll serve": ("deniable poll serve school.json --port 8080",),
    "proxy": ("deniable proxy new proxy.toml", "deniable proxy run proxy.toml"),
    "proxy new": ("deniable proxy new proxy.toml --ring ring.json",),
    "proxy run": ("deniable proxy run proxy.toml",),
    "proxy check": ("deniable proxy check proxy.toml --url https://proxy-one.example",),
    "proxy show": ("deniable proxy show proxy.toml",),
    "proxy invite": ("deniable proxy invite proxy.toml --count 100 > invitations.txt",),
    "proxy token": ("deniable proxy token add proxy.toml --role operator",),
    "proxy token add": (
        "deniable proxy token add proxy.toml --role reader --label aggregator > aggregator.token",
    ),
    "proxy token list": ("deniable proxy token list proxy.toml",),
    "proxy token revoke": ("deniable proxy token revoke proxy.toml 3f9a",),
    "proxy audit": ("deniable proxy audit proxy.toml --verify",),
    "proxy log": ("deniable proxy log proxy.toml",),
    "proxy backup": ("deniable proxy backup proxy.toml backups/monday",),
    "proxy restore": ("deniable proxy restore backups/monday proxy.toml",),
    "ring": ("deniable ring add ring.json my.key.pub",),
    "ring add": ("deniable ring add ring.json my.key.pub --end 2028-01-01T00:00:00Z",),
    "ring rotate": ("deniable ring rotate ring.json 0a1b2c3d new.key.pub --overlap '14 d'",),
    "ring revoke": ("deniable ring revoke ring.json 0a1b2c3d",),
    "ring show": ("deniable ring show ring.json",),
    "size": (
        "deniable size --population 1e6 --every '10 min'",
        "deniable size query.toml --population 200000 --sources",
    ),
    "kafka": ("deniable kafka dev --port 9092",),
    "kafka dev": ("deniable kafka dev --port 9092 --data kafka-data",),
    "spark": ("deniable spark submit aggregator.toml --available-now",),
    "spark submit": ("deniable spark submit aggregator.toml --master 'local[2]' --available-now",),
    "up": ("deniable up up.toml", "deniable up up.toml --mode simulation --seconds 60 --json"),
    # --- researchers
    "audit": ("deniable audit mechanism DirectEncoding --epsilon 1",),
    "audit mechanism": (
        "deniable audit mechanism DirectEncoding --epsilon 1 --n-reports 1e5",
        "deniable audit mechanism all --report audit.html --key my.key",
    ),
    "audit survey": ("deniable audit survey answers.csv.toml",),
    "audit design": ("deniable audit design Crosswise:p=1/6",),
    "audit graph": ("deniable audit graph --rounds 2 --n-reports 4000",),
    "audit device": ("deniable audit device query.toml",),
    "audit pipeline": ("deniable audit pipeline query.toml",),
    "audit command": (
        "deniable audit command --claim 1.1 --value yes --value no -- python3 their_client.py",
    ),
    "audit service": ("deniable audit service https://aggregator.example --token-file my.token",),
    "audit releases": (
        "deniable audit releases https://aggregator.example --token-file my.token --epochs 6",
    ),
    "audit verify": ("deniable audit verify audit.html --trusted auditor.key.pub",),
    "coverage": (
        "deniable coverage Warner:p=0.7 Crosswise:p=1/4 --n-reports 200 --proportion 0.01",
        "deniable coverage DirectEncoding --epsilon 2 --values 8 --plot coverage.png",
    ),
    "compare": (
        "deniable compare --values 16 --epsilon 1,2",
        "deniable compare --data answers.csv --column city --plot errors.png",
    ),
    "randomize": (
        (
            "deniable randomize answers.csv -o reports.csv -c"
            " 'city=DirectEncoding:values=Oslo|Paris|Rome,epsilon=1'"
        ),
        "deniable randomize answers.xlsx -o reports.parquet -m survey.toml --keep region",
    ),
    "estimate": (
        "deniable estimate reports.csv",
        "deniable estimate reports.csv --conditional 'smokes|city' --plot estimates.png",
    ),
    "regress": ("deniable regress 'used ~ age + region' reports.csv",),
    "correlate": ("deniable correlate reports.csv --of used,age",),
    "curate": (
        (
            "deniable curate salaries.csv --epsilon 0.5 --total 2 --count --mean salary --bounds"
            " salary=0,200000"
        ),
        (
            "deniable curate salaries.csv --epsilon 0.5 --histogram city --labels"
            " 'city=Oslo|Paris|Rome' --preview"
        ),
    ),
    "demo": (
        "deniable demo",
        "deniable demo --dataset tweets --seconds 10 --no-browser",
        "deniable demo --adaptive",
    ),
    "graph": ("deniable graph randomize friends.csv -o reports.npz --epsilon 2",),
    "graph randomize": (
        "deniable graph randomize friends.csv -o reports.npz --epsilon 2 --nodes people.csv",
    ),
    "graph estimate": ("deniable graph estimate reports.npz --distribution",),
    "graph compare": ("deniable graph compare friends.csv --epsilon 1 --epsilon 2 --trials 10",),
    "models": ("deniable models answers.csv --column city --epsilon 1",),
    "power": (
        "deniable power Crosswise:p=1/4 --value 0.1",
        "deniable power Crosswise:p=1/4 --value 0.1 --n-reports 1500 --plot power.png",
    ),
    "privacy": (
        "deniable privacy --epsilon 1 --sampling 0.5 --population 10000 --answers 4",
        "deniable privacy --p 0.5 --q 0.5",
        "deniable privacy --choose --prior 0.1 --belief 0.25",
    ),
    "release": (
        (
            "deniable release people.csv -o public.csv -a age=numbers:low=0,high=100,width=5 -a"
            " sex=categories --k 5"
        ),
        (
            "deniable release people.csv -o public.csv -a age=numbers:low=0,high=100,width=5"
            " --epsilon 1 --delta 1e-6"
        ),
    ),
    "reproduce": ("deniable reproduce --list", "deniable reproduce galanis --quick"),
    "survey": ("deniable survey designs --prevalence 0.1 --epsilon 1",),
    "survey template": ("deniable survey template pilot.csv --epsilon 3 -o survey.toml",),
    "survey designs": ("deniable survey designs --prevalence 0.1 --epsilon 1 --margin 0.02",),
    "survey estimate": ("deniable survey estimate designs.toml",),
    "survey synthesize": ("deniable survey synthesize reports.csv -o synthetic.csv",),
    "survey report": ("deniable survey report survey.toml -o report.html",),
}
"""By the command's words after `deniable`."""
