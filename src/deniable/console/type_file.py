"""The console's types, made from the documents that the services write.

`python -m deniable.console.type_file` writes `static/js/types.js` again after a document has
changed; a test says when that is due.
"""

from __future__ import annotations

from pathlib import Path

from deniable.aggregator.history.answer_documents import HISTORY_ANSWER
from deniable.aggregator.operations.health import AggregatorHealth
from deniable.aggregator.operations.version_history import VersionDocument
from deniable.aggregator.web.documents import QUERY
from deniable.aggregator.windows.series import SeriesDocument
from deniable.aggregator.windows.stored import SERVED_WINDOW
from deniable.console.console_documents import SessionDocument
from deniable.console.drafts import DraftCheck
from deniable.console.person_app import PersonDocument
from deniable.console.plan_documents import PLAN
from deniable.console.public_queries import PublicKeyDocument, PublicQuery
from deniable.documents import jsdoc
from deniable.privacy.release_accountant import SampledFields

__all__ = ["TYPE_FILE", "type_file"]

TYPE_FILE = Path(__file__).parent / "static" / "js" / "types.js"
_HEAD = """// The documents of the services' interfaces. Made from the types of the code that writes them, by
// `python -m deniable.console.type_file`: change those, not this.

"""
_TYPES = {
    "WindowResult": SERVED_WINDOW,
    "Query": QUERY,
    "Series": SeriesDocument,
    "Sampled": SampledFields,
    "Health": AggregatorHealth,
    "Session": SessionDocument,
    "Version": VersionDocument,
    "HistoryAnswer": HISTORY_ANSWER,
    "Design": PLAN,
    "DraftCheck": DraftCheck,
    "PublicQuery": PublicQuery,
    "PublicKey": PublicKeyDocument,
    "Person": PersonDocument,
}


def type_file() -> str:
    """The text of the file as it should be."""
    return f"{_HEAD}{jsdoc(_TYPES)}export {{}};\n"


if __name__ == "__main__":
    TYPE_FILE.write_text(type_file(), encoding="utf-8")
