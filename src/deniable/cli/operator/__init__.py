"""Commands for the operator, who runs the services."""
