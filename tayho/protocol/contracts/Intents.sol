// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Sessions} from "./Sessions.sol";

/// @title Signed intents (EIP-712)
/// @notice What a session key signs, how it is verified, and that it is spent once.
abstract contract Intents is Sessions {
    struct Intent {
        address account;
        uint8 action;
        bytes32 market;
        /// @dev ABI-encoded arguments of the action.
        bytes payload;
        /// @dev Any number that tells two otherwise equal intents apart.
        uint256 salt;
        /// @dev Seconds since 1970; the intent may be executed up to this second.
        uint256 deadline;
    }

    bytes32 public constant INTENT_TYPEHASH =
        keccak256("Intent(address account,uint8 action,bytes32 market,bytes payload,uint256 salt,uint256 deadline)");
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME_HASH = keccak256("tayho reference protocol");
    bytes32 private constant VERSION_HASH = keccak256("1");
    /// @dev Half of the group order: a signature with a greater s is the same one written twice (EIP-2).
    uint256 private constant S_MAX = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    mapping(bytes32 digest => bool) public spent;

    error DeadlinePassed(uint256 deadline);
    error IntentSpent(bytes32 digest);
    error SignatureMalformed();
    error SignatureMalleable();

    /// @notice The domain separator on this chain; recomputed, so that a fork of the chain has another.
    function domainSeparator() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPEHASH, NAME_HASH, VERSION_HASH, block.chainid, address(this)));
    }

    /// @notice The EIP-712 digest of an intent: what is signed, and what names the intent for ever.
    function digestOf(Intent calldata intent) public view returns (bytes32) {
        bytes32 structHash = keccak256(
            abi.encode(
                INTENT_TYPEHASH,
                intent.account,
                intent.action,
                intent.market,
                keccak256(intent.payload),
                intent.salt,
                intent.deadline
            )
        );
        return keccak256(abi.encodePacked("\x19\x01", domainSeparator(), structHash));
    }

    /// @notice Who signed the digest. Refuses malleable and malformed signatures.
    function signerOf(bytes32 digest, bytes calldata signature) public pure returns (address signer) {
        if (signature.length != 65) revert SignatureMalformed();
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        uint8 v = uint8(signature[64]);
        if (uint256(s) > S_MAX) revert SignatureMalleable();
        signer = ecrecover(digest, v, r, s);
        if (signer == address(0)) revert SignatureMalformed();
    }

    /// @notice Reverts with the reason for which the intent would not be executed now; returns its digest otherwise.
    function verify(Intent calldata intent, bytes calldata signature) public view returns (bytes32 digest) {
        if (intent.deadline < block.timestamp) revert DeadlinePassed(intent.deadline);
        digest = digestOf(intent);
        if (spent[digest]) revert IntentSpent(digest);
        _requirePermitted(intent.account, signerOf(digest, signature), intent.action, intent.market);
    }

    /// @dev Verifies and spends. Whatever reverts later un-spends it: the intent may be tried again.
    function _spend(Intent calldata intent, bytes calldata signature) internal returns (bytes32 digest) {
        digest = verify(intent, signature);
        spent[digest] = true;
    }
}
