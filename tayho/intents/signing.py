"""What a session key signs: an intent as an EIP-712 message. Pure."""

from __future__ import annotations

from tayho.intents.types import Intent, IntentDomain
from tayho.kernel import typed_data
from tayho.kernel.json_document import Json
from tayho.kernel.typed_data import Field

INTENT = "Intent"
INTENT_TYPES = {
    INTENT: (
        Field("account", "address"),
        Field("action", "uint8"),
        Field("market", "bytes32"),
        Field("payload", "bytes"),
        Field("salt", "uint256"),
        Field("deadline", "uint256"),
    )
}


def domain_document(domain: IntentDomain) -> dict[str, Json]:
    """The EIP-712 domain of the protocol."""
    return {
        "name": "tayho reference protocol",
        "version": "1",
        "chainId": domain.chain_id,
        "verifyingContract": str(domain.protocol),
    }


def intent_document(intent: Intent) -> dict[str, Json]:
    """The EIP-712 message. Great integers are text: JSON readers elsewhere lose digits beyond 2**53."""
    return {
        "account": str(intent.account),
        "action": intent.action,
        "market": f"0x{intent.market.hex()}",
        "payload": f"0x{intent.payload.hex()}",
        "salt": str(intent.salt),
        "deadline": str(intent.deadline),
    }


def digest_of(intent: Intent, domain: IntentDomain) -> bytes:
    """What is signed, and what names the intent for ever. Raises TypedDataRefused for a value out of its type."""
    return typed_data.digest(domain_document(domain), INTENT, INTENT_TYPES, intent_document(intent))


def typed_data_of(intent: Intent, domain: IntentDomain) -> dict[str, Json]:
    """The whole document that a wallet is shown, as `eth_signTypedData_v4` takes it."""
    fields = {
        typed_data.DOMAIN_TYPE: typed_data.domain_fields(domain_document(domain)),
        INTENT: INTENT_TYPES[INTENT],
    }
    return {
        "types": {name: [{"name": one.name, "type": one.type_name} for one in of] for name, of in fields.items()},
        "primaryType": INTENT,
        "domain": domain_document(domain),
        "message": intent_document(intent),
    }
