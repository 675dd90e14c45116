"""Every published EIP-712 message (ethers' test cases, MIT): our encoding and our digest are theirs (INT-2)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tayho.kernel.typed_data import Field, digest, encode_data
from tests.conformance.published import DATA

FILE = DATA / "ethers" / "typed-data.json.gz"

if not FILE.is_file():
    pytest.skip(f"no conformance data at {FILE} (TAYHO_CONFORMANCE_DATA)", allow_module_level=True)

CASES: list[dict[str, Any]] = json.loads(gzip.decompress(FILE.read_bytes()))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_published_message_has_its_published_encoding_and_digest(case: dict[str, Any]) -> None:
    """Goal: what a wallet signs is what we verify. Method: each published document, both of its published results."""
    types = {name: [Field(one["name"], one["type"]) for one in fields] for name, fields in case["types"].items()}
    assert f"0x{encode_data(case['primaryType'], types, case['data']).hex()}" == case["encoded"]
    assert f"0x{digest(case['domain'], case['primaryType'], types, case['data']).hex()}" == case["digest"]
