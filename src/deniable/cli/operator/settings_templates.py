"""The settings files that `new` writes: valid as they are, with every setting there is, and a
reason for each.

A setting that is commented out shows its default, or an example where it has none; a test holds
both.
"""

from __future__ import annotations

__all__ = ["AGGREGATOR", "COLLECTOR", "PROXY"]

PROXY = """\
# Settings of a proxy for deniable (docs/proxy.md). Paths are relative to this file.
# deniable proxy check {file}    looks for mistakes
# deniable proxy show {file}     prints every setting in force
# deniable proxy run {file}      starts it

folder = {folder}            # log, spool, tokens and queries; readable by the proxy only
host = {host}                # where it listens
port = {port}                # 0 lets the operating system choose
{ring}                       # relay only queries that are signed by a key in this ring
# workers = 0                # processes that end connections in front of the intake

[intake]
threshold = 4096             # so many shares of a channel and epoch are mixed and passed on at once
deadline = "10 s"            # or fewer, when one of them has waited this long
grace = "10 min"             # how long after its end an epoch stays open
skew = "60 s"                # how far a device's clock may be ahead
retention = "7 d"            # how long blocks stay in the log
# prefix_bits = 6            # blocks are cut by up to so many bits of the message id
# most_ids = 50000000        # message ids of open epochs that are held; above it, uploads are put off
# most_waiting = 4000000     # shares that wait for a log that is away; above it, uploads are put off
# reserve = "64 MiB"         # stays free on the disk; below it, uploads are put off

[limits]
largest_body = "4 MiB"       # of one upload
# most_waiting = "256 MiB"   # of all uploads in progress
most_uploads_per_token = 32  # at a time
most_connections = 1000
body_deadline = "30 s"       # a body must have arrived within it
header_deadline = "10 s"     # so must the head of a request; an idle connection is closed after it

[enrolment]
mode = "closed"              # "open", "invitation" or "ticket": how devices get tokens over HTTP
per_hour_and_address = 20    # tokens for one network address
per_second = 50              # for all of them together
# ticket_key = ""            # with "ticket": the Ed25519 public key of the app's server, 64 hexadecimal digits

[browser]
# origins = []               # pages that may enrol, poll and upload, such as "https://poll.example"; "*" for every page

{tls}
{kafka}"""

COLLECTOR = """\
# Settings of a collector for deniable (docs/collector.md). Paths are relative to this file.
# deniable collector check {file}    looks for mistakes, and whether the proxy can be reached
# deniable collector show {file}     prints every setting in force
# deniable collector run {file}      starts it

proxy = {proxy}              # the one proxy that it belongs to; never two proxies of one query
token_file = {token_file}    # holds what  deniable proxy token add PROXY.toml --role collector  prints
# ca = "proxy-ca.pem"        # verifies the proxy's certificate; by default, what the system trusts
host = {host}                # where it listens
port = {port}                # 0 lets the operating system choose
refresh = "2 s"              # how often it looks for new tokens and queries
# silent = "10 s"            # without an answer for so long, the proxy is called silent

[limits]
largest_body = "4 MiB"       # of one upload
# most_waiting = "256 MiB"   # of all uploads in progress
# most_uploads_per_token = 32  # at a time
most_connections = 10000
body_deadline = "30 s"       # a body must have arrived within it
header_deadline = "10 s"     # so must the head of a request; an idle connection is closed after it

[browser]
# origins = []               # pages that may poll and upload, such as "https://poll.example"; "*" for every page

{tls}"""

AGGREGATOR = """\
# Settings of an aggregator for deniable (docs/aggregator.md). Paths are relative to this file.
# deniable aggregator check {file}    looks for mistakes, and whether the proxies can be reached
# deniable aggregator show {file}     prints every setting in force
# deniable aggregator run {file}      starts it

state = {state}              # positions, waiting shares, results; readable by the aggregator only
ring = {ring}                # the analysts' keys (deniable ring)
host = {host}                # where it listens
port = {port}                # 0 lets the operating system choose
{controller}                 # adapts queries whose envelopes name this key (docs/adaptive.md)
# engine = "embedded"        # or "spark" (docs/spark.md): this process then only serves results
# header_deadline = "10 s"   # the head of a request must have arrived within it
# most_connections = 1000

{proxies}
[limits]
patience = "30 min"          # how long after its end an epoch waits for a proxy: longer than the proxies' grace
# behind = "15 min"          # after that, a proxy that has not marked an epoch is called behind
# silent = "10 s"            # without an answer for so long, a proxy is called silent
# reserve = "256 MiB"        # of the state's disk; below it, health says that the disk is low
# early = "10 min"           # after that, windows of queries with a grace get a first result
# skew = "5 min"             # how far a device's clock may be ahead
# step_bytes = "64 MiB"      # read from each log in one step
# most_waiting = 8000000     # shares of one proxy that may wait for the others
# bucket_bits = 6            # bits of the message id that choose a bucket
# retention = "30 d"         # how long accounts and results are kept
# pane_retention = "3650 d"  # how long counts are kept, from which any period can be estimated again
# garbage = 4096             # rows of closed epochs that are deleted in one step
# workers = 2                # threads that join and count

# [history]                  # keep counted reports (docs/history.md)
# folder = "history"
# keep = "400 d"             # counted from the end of their day
# keep_by_query = {{}}         # the same for single queries: {{ "trip-distance" = "30 d" }}
# never = []                 # queries whose reports are not kept
# publish_every = "10 min"   # until reports of closed epochs are moved to a file
# most_scans = 2             # how many may read the history over HTTP at a time

# [spark]                    # with engine = "spark"
# checkpoint = "checkpoint"  # a folder, or its address, that driver and executors can reach
# trigger = "1 s"            # from one batch to the next
# records_a_batch = 4096     # of each proxy's topic
# shuffle_partitions = 0     # tasks that count at the same time; 0 for one per core
# options = {{}}               # any settings of Spark: {{ "spark.executor.memory" = "4g" }}

{tls}"""
