"""What a kind discovers: work that the chain asks for now, and what kept it from looking."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import optional

from tayho.kernel.arguments import is_name, is_object, is_whole
from tayho.kernel.json_document import Json

# With the kind and the chain before it, a key is still one of a job.
WORK_KEY_CHARACTERS_MAX = 120
PRIORITY_MAX = 2_097_151


@frozen
class Work:
    """One job that the present state of the chain asks for.

    `key` names the effect within the kind and the chain. What makes the effect due belongs into it: an order by its
    number and its terms, a fact by its epoch. Whoever discovers a key first decides the request; a later request under
    the same key is not looked at. Raises ArgumentRefused, and DocumentRefused when the request is no object.
    """

    key: str = field(validator=is_name(WORK_KEY_CHARACTERS_MAX))
    request: Mapping[str, Json] = field(validator=is_object)
    # BullMQ's meaning: 1 is the most urgent; None is the default of any job.
    priority: int | None = field(default=None, validator=optional(is_whole(1, PRIORITY_MAX)))
    # Whose work it is: see `limit_key` of any job.
    limit_key: str | None = field(default=None, validator=optional(is_name(255)))


@frozen
class Finding:
    """What keeps work from being discovered, for a person to mend. It is kept once an hour.

    `subject` is what it is about and `name` the kind of fault, both from a small set of names: they tell one finding
    from another. What was seen goes into `detail`.
    """

    subject: str = field(validator=is_name(120))
    name: str = field(validator=is_name(60))
    detail: str = field(validator=is_name(2_000))


@frozen
class Discovered:
    """One page of a look."""

    work: tuple[Work, ...] = ()
    findings: tuple[Finding, ...] = ()
    # There is another page: the kind knows where it left off, and is asked again at once.
    is_more: bool = False
