"""What keeps a Redis from carrying a delivery queue, by what its INFO says of it. Pure."""

from collections.abc import Mapping
from typing import Final

VERSION_MIN: Final = (7, 0)


def parsed_info(text: str) -> dict[str, str]:
    """The fields of INFO's reply."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def problems_of(info: Mapping[str, str], shown: str, *, is_cluster: bool = False) -> list[str]:
    """One sentence per problem. `is_cluster`: the server is meant to be a node of one, and told CLUSTER INFO too."""
    if info.get("redis_mode") == "sentinel":
        return [f"Redis at {shown} is a sentinel: write REDIS_URL as redis+sentinel://host[:port],host…/service."]
    problems: list[str] = []
    version = info.get("redis_version", "")
    if version_numbers(version) < VERSION_MIN:
        problems.append(f"Redis at {shown} is version {version or 'unknown'}: 7.0 or later is needed.")
    policy = info.get("maxmemory_policy", "not given")
    if policy != "noeviction":
        problems.append(
            f"Redis at {shown} may evict queue records (maxmemory-policy is {policy}): set it to noeviction."
        )
    if info.get("role") == "slave":
        problems.append(f"Redis at {shown} is a replica and takes no writes: point REDIS_URL at its master.")
    state = info.get("cluster_state", "not given")
    if is_cluster and state != "ok":
        problems.append(
            f"Redis at {shown} finds its cluster not whole (cluster_state is {state}): bring its nodes back."
        )
    if info.get("cluster_enabled") == "1" and not is_cluster:
        problems.append(f"Redis at {shown} is a cluster node: write REDIS_URL as redis+cluster://host[:port],host….")
    return problems


def version_numbers(version: str) -> tuple[int, ...]:
    """ "7.0.15" as (7, 0, 15); what is no number ends it."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
