// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Intents} from "./Intents.sol";
import {Protocol} from "./Protocol.sol";

/// @title Many intents in one transaction, none of which can hurt another
/// @notice Each child runs under its own gas stipend; its failure is caught, and its result logged by its index.
contract BatchExecutor {
    struct Child {
        Intents.Intent intent;
        bytes signature;
        /// @dev Gas that the child may use, and no more.
        uint256 gasStipend;
    }

    /// @dev So much of what a child returns is looked at; the rest costs nobody anything.
    uint256 public constant RETURN_DATA_MAX = 1_024;
    /// @dev Kept back for a child's log and the loop around it.
    uint256 public constant CHILD_OVERHEAD_GAS = 12_000;

    Protocol public immutable protocol;

    /// @dev 1 is free, 2 is running. A child that calls back in fails alone.
    uint256 private _lock = 1;

    /// @param returnDataDigest Keccak-256 of the first RETURN_DATA_MAX bytes of what the child returned.
    event ChildExecuted(
        bytes32 indexed batchId, uint256 indexed index, bytes32 indexed digest, bool success, bytes32 returnDataDigest
    );
    event BatchExecuted(bytes32 indexed batchId, uint256 children);

    error Reentered();
    error BatchEmpty();
    error GasTooLow(uint256 index, uint256 gasLeft, uint256 gasNeeded);

    constructor(Protocol protocol_) {
        protocol = protocol_;
    }

    /// @notice Executes the children in their order. Reverts whole only where a child could not be given its stipend:
    ///         a relayer cannot make a child fail by sending too little gas.
    function executeBatch(bytes32 batchId, Child[] calldata children) external {
        if (_lock != 1) revert Reentered();
        if (children.length == 0) revert BatchEmpty();
        _lock = 2;
        for (uint256 index = 0; index < children.length; ++index) {
            _executeChild(batchId, index, children[index]);
        }
        _lock = 1;
        emit BatchExecuted(batchId, children.length);
    }

    function _executeChild(bytes32 batchId, uint256 index, Child calldata child) private {
        bytes memory data = abi.encodeCall(Protocol.execute, (child.intent, child.signature));
        bytes32 digest = protocol.digestOf(child.intent);
        // A call gets at most 63/64 of what is left (EIP-150): with less, the child would get less than its stipend.
        uint256 gasNeeded = child.gasStipend + child.gasStipend / 63 + CHILD_OVERHEAD_GAS;
        if (gasleft() < gasNeeded) revert GasTooLow(index, gasleft(), gasNeeded);
        (bool success, bytes32 returnDataDigest) = _call(child.gasStipend, data);
        emit ChildExecuted(batchId, index, digest, success, returnDataDigest);
    }

    function _call(uint256 gasStipend, bytes memory data) private returns (bool success, bytes32 returnDataDigest) {
        address target = address(protocol);
        uint256 sizeMax = RETURN_DATA_MAX;
        assembly ("memory-safe") {
            success := call(gasStipend, target, 0, add(data, 32), mload(data), 0, 0)
            let size := returndatasize()
            if gt(size, sizeMax) { size := sizeMax }
            let free := mload(0x40)
            returndatacopy(free, 0, size)
            returnDataDigest := keccak256(free, size)
        }
    }
}
