"""Every way out of a nursery."""

import asyncio  # breaks ARC-8
import anyio  # breaks ARC-8
import multiprocessing  # breaks ARC-8
import os
import threading  # breaks ARC-8
from concurrent.futures import ThreadPoolExecutor  # breaks ARC-8

import trio
from trio import to_thread  # breaks ARC-8


async def escape(loop) -> None:
    trio.lowlevel.spawn_system_task(escape)  # breaks ARC-8
    await trio.to_thread.run_sync(print)  # breaks ARC-8
    loop.create_task(escape())  # breaks ARC-8
    loop.call_later(1, print)  # breaks ARC-8
    os.fork()  # breaks ARC-8
    with trio.CancelScope(shield=True):  # breaks ARC-8
        await trio.sleep(0)
    with trio.CancelScope() as scope:
        scope.shield = True  # breaks ARC-8
    print(asyncio, multiprocessing, threading, ThreadPoolExecutor, to_thread)
