"""Experiments that set whole models or papers side by side, by the code of the other rooms."""
