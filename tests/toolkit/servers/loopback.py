"""Single requests to services on loopback: httpx's functions, without the certificates of the
world's authorities.

To read those takes 40 ms of processor time for each request, which is more than most tests take.
"""

from __future__ import annotations

from functools import partial

import httpx

delete = partial(httpx.delete, verify=False)
get = partial(httpx.get, verify=False)
post = partial(httpx.post, verify=False)
put = partial(httpx.put, verify=False)
request = partial(httpx.request, verify=False)
stream = partial(httpx.stream, verify=False)
