"""What runs on a person's device: their vault, the sandbox where an analyst's SQL sees what they share, and answering."""

from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.fleet import Fleet, FleetShares
from deniable.client.policy import Policy, read_policy
from deniable.client.receipts import Receipt
from deniable.client.sandbox import Rows, run
from deniable.client.store import Store
from deniable.client.upload import HttpTransport, Transport, Uploaded, upload
from deniable.client.vault import TableInfo, Vault

__all__ = [
    "Cadence",
    "Device",
    "Fleet",
    "FleetShares",
    "HttpTransport",
    "Policy",
    "Receipt",
    "Rows",
    "Store",
    "TableInfo",
    "Transport",
    "Uploaded",
    "Vault",
    "read_policy",
    "rounds",
    "run",
    "upload",
]
