"""A producer's own program: asyncio and asyncpg, no Trio, no bridge. `python -m … URL ISOLATION CALLERS`.

All callers enqueue one key at once, each in a transaction of its own that writes once more afterwards. Where the
isolation lets PostgreSQL undo a transaction, the caller runs it again, as the documents say. Tells in JSON what came.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Any

import asyncpg

import tayho

CHAIN_ID = 31337
ENVIRONMENT = "test"


async def main(url: str, isolation: str, callers: int) -> dict[str, Any]:
    errors: Counter[str] = Counter()
    job_ids: Counter[str] = Counter()
    created = 0
    ready = asyncio.Barrier(callers)

    async def call(pool: "asyncpg.Pool[Any]", number: int) -> None:
        nonlocal created
        async with pool.acquire() as connection:
            await ready.wait()
            while True:
                try:
                    async with connection.transaction(isolation=isolation):
                        answer = await tayho.enqueue(
                            connection,
                            "kind",
                            "one key",
                            {"n": 1},
                            role="automation",
                            chain_id=CHAIN_ID,
                            environment=ENVIRONMENT,
                        )
                        await connection.execute(
                            "INSERT INTO orders (id, job_id) VALUES ($1, $2)", number, answer.job_id
                        )
                except asyncpg.SerializationError as error:
                    errors[type(error).__name__] += 1
                else:
                    break
        job_ids[str(answer.job_id)] += 1
        created += answer.created

    async with asyncpg.create_pool(url, min_size=callers, max_size=callers) as pool:
        await pool.execute("CREATE TABLE orders (id int PRIMARY KEY, job_id uuid NOT NULL)")
        async with asyncio.TaskGroup() as tasks:
            for number in range(callers):
                tasks.create_task(call(pool, number))
        orders = await pool.fetchval("SELECT count(*) FROM orders")
        jobs = await pool.fetchval("SELECT count(*) FROM coordination.jobs")
    return {
        "answers": list(job_ids.values()),
        "created": created,
        "errors": errors,
        "orders": orders,
        "jobs": jobs,
        "loaded": sorted({"trio", "trio_asyncio", "redis", "bullmq", "httpx2"} & sys.modules.keys()),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
