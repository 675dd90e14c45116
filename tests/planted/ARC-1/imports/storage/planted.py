"""Storage that looks sideways and up."""

import httpx2  # breaks http-in-rpc
import rpc.errors  # breaks rooms
import tayho.kernel.steps  # breaks rooms
import trio_asyncio  # breaks asyncio-in-bridge
