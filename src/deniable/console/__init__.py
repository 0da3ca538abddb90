"""The web console: pages made of plain modules, served as written, that use only the documented
interface."""
