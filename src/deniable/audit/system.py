"""The name under which rehearsals documented :class:`deniable.local.system.LocalSystem`; it goes
with the next release."""

from deniable.local.system import LocalSystem as SimulatedSystem
from deniable.local.transport import LocalTransport as SimulatedTransport

__all__ = ["SimulatedSystem", "SimulatedTransport"]
