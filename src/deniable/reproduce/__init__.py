"""Experiments that compare whole models or papers, using the code of the other packages."""
