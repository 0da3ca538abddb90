"""Commands for the researcher, with a survey or a protocol."""
