"""How much of everything a system takes: from people and epochs to processes, bytes and money, and how it behaves in time."""
