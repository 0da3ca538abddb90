"""The whole system on one machine: a population, its devices, proxies and an aggregator as
processes, and what comes out."""
