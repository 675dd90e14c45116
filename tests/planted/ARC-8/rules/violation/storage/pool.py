"""Waits during a cleanup without a shield."""

import trio


async def use(connection) -> None:
    try:
        await connection.run()
    except BaseException:
        await connection.terminate()  # breaks ARC-8
        raise
    finally:
        await _close(connection)  # breaks ARC-8
        async with connection.lock:  # breaks ARC-8
            pass


async def _close(connection) -> None:
    await connection.close()


async def other(connection) -> None:
    try:
        await connection.run()
    except (ValueError, trio.Cancelled):
        await connection.terminate()  # breaks ARC-8
        raise
