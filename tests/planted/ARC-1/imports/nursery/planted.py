"""The nursery that looks up."""

import bullmq  # breaks drivers-in-storage
import httpx2  # breaks http-in-rpc
import rpc.errors  # breaks rooms
import storage.errors  # breaks rooms
import tayho.kernel.steps  # breaks rooms
import trio_asyncio  # breaks asyncio-in-bridge
