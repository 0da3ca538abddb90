"""The web console: pages of plain modules, served as they are written, that read the documented interface and nothing else."""
