"""Makes examples/commute.csv: a synthetic survey of how people commute and whether they ever drove
drunk, already randomized.

python examples/make_commute.py
"""

from pathlib import Path

import numpy as np

from deniable import BinaryResponse, DirectEncoding, Mechanism, seeded_source
from deniable.survey import write_columns

HERE = Path(__file__).parent
PEOPLE = 5000
MODES = ["bike", "bus", "car", "walk"]


def main() -> None:
    rng = np.random.default_rng(2026)
    commute = rng.choice(4, PEOPLE, p=[0.22, 0.31, 0.38, 0.09])
    drunk = rng.random(PEOPLE) < np.where(commute == 2, 0.16, 0.06)
    mechanisms: dict[str, Mechanism] = {
        "commute": DirectEncoding(MODES, 2.0),
        "drove_drunk": BinaryResponse(0.5, 0.5),
    }
    source = seeded_source("commute")
    first = mechanisms["commute"].privatize([MODES[mode] for mode in commute], source).data
    second = mechanisms["drove_drunk"].privatize(drunk, source).data
    rows = "".join(f"{MODES[a]},{b}\n" for a, b in zip(first, second, strict=True))
    (HERE / "commute.csv").write_text("commute,drove_drunk\n" + rows, encoding="utf-8")
    (HERE / "commute.csv.toml").write_text(write_columns(mechanisms), encoding="utf-8")


if __name__ == "__main__":
    main()
