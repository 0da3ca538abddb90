"""The public names of this package, each written once."""

from deniable.audit.game import Game as Game, play as play
from deniable.audit.callables import audit_callable as audit_callable
from deniable.audit.programs import Program as Program
from deniable.audit.mechanisms import audit_mechanism as audit_mechanism
from deniable.audit.rehearsal.rehearsal import rehearse as rehearse
from deniable.audit.views import WholeReport as WholeReport

__all__: list[str]
