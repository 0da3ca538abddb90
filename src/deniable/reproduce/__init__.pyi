"""The public names of this package, each written once."""

from deniable.reproduce.models import compare_models as compare_models
from deniable.reproduce.protocols import compare_protocols as compare_protocols

__all__: list[str]
