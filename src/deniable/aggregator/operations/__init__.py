"""What keeps an aggregator running: settings checks, health, relays, the controller, metrics and
backups."""
