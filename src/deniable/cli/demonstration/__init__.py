"""The demonstration, and how a running system is shown in a terminal."""
