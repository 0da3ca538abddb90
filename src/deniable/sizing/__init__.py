"""The resources a system needs: from people and epochs to processes, bytes and money, and its behaviour over time."""
