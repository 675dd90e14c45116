"""A client that would carry a server."""

import httpx2  # breaks http-in-rpc
import storage.errors  # breaks client-alone
import tayho.api.health  # breaks inside-tayho
