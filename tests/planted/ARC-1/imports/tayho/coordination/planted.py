"""A context that sees its siblings, its hosts, and what others keep."""

import asyncpg  # breaks drivers-in-storage
import Crypto.Cipher.AES  # breaks keys-in-custody
import eth_account  # breaks keys-in-custody
import httpx2  # breaks http-in-rpc
import redis  # breaks drivers-in-storage
import tayho.config.settings  # breaks inside-tayho
import tayho.custody.types  # breaks contexts, breaks inside-tayho
import tayho.daemon  # breaks inside-tayho
import tayho.local.stack  # breaks inside-tayho
import tayho.transactions.types  # breaks contexts, breaks inside-tayho
import trio_asyncio  # breaks asyncio-in-bridge
