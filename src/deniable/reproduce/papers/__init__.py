"""The papers' tables and figures, one module for each part of a paper."""
