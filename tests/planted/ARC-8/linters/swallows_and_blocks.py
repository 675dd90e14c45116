"""What flake8-async and ruff refuse in async code: cancellation swallowed, the loop blocked, a task left behind."""

import subprocess
import time
from pathlib import Path

import trio


async def swallows(work) -> None:
    try:
        await work()
    except BaseException:  # breaks ASYNC103, BLE001
        work.log()
    try:
        await work()
    except:  # breaks ASYNC103, E722
        work.log()
    try:
        await work()
    except trio.Cancelled:  # breaks ASYNC103
        work.log()
    try:
        await work()
    except Exception:  # breaks BLE001
        work.log()


async def passes(work) -> None:
    try:  # breaks SIM105
        await work()
    except Exception:  # breaks BLE001, S110
        pass
    for item in work:
        try:
            await item()
        except Exception:  # breaks BLE001, S112
            continue


async def blocks(path: Path) -> None:
    time.sleep(1)  # breaks ASYNC251
    subprocess.run(["true"], check=True)  # breaks ASYNC221, S607
    path.read_text()  # breaks ASYNC240
    with open(path):  # breaks ASYNC230, PTH123
        await trio.lowlevel.checkpoint()


async def waits(ready) -> None:
    while not ready():  # breaks ASYNC110
        await trio.sleep(0.1)
    trio.sleep(1)  # breaks ASYNC105
    with trio.move_on_after(1):  # breaks ASYNC100
        ready()


async def yields():  # breaks ASYNC900
    async with trio.open_nursery():
        yield 1  # breaks ASYNC101, ASYNC119
