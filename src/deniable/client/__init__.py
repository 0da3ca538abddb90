"""What runs on a person's device: their vault, the sandbox where an analyst's SQL sees what they
share, and answering."""

from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.http_transport import HttpTransport
from deniable.client.policy import Policy, read_policy
from deniable.client.receipts import Receipt
from deniable.client.sandbox.interface import SandboxRows, run
from deniable.client.simulation.fleet import Fleet, FleetShares
from deniable.client.storage.store import Store
from deniable.client.upload import Transport, Uploaded, upload
from deniable.client.vaults.vault import TableInfo, Vault

__all__ = [
    "Cadence",
    "Device",
    "Fleet",
    "FleetShares",
    "HttpTransport",
    "Policy",
    "Receipt",
    "SandboxRows",
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
