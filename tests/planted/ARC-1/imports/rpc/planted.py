"""The RPC room that looks sideways and up."""

import asyncpg  # breaks drivers-in-storage
import coincurve  # breaks keys-in-custody
import storage.errors  # breaks rooms
import tayho.kernel.steps  # breaks rooms
import trio_asyncio  # breaks asyncio-in-bridge
