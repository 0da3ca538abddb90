"""The device's state: ledger, permanent answers, decided epochs, versions of queries, receipts
and outgoing shares."""
