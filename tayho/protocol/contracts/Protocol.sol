// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Claims} from "./Claims.sol";
import {Intents} from "./Intents.sol";
import {Orders} from "./Orders.sol";

/// @title The reference protocol
/// @notice Users sign intents, anybody relays them; keepers of named roles do the rest.
contract Protocol is Intents, Orders, Claims {
    uint8 public constant PLACE_ORDER = 0;
    uint8 public constant CANCEL_ORDER = 1;
    uint8 public constant CLAIM = 2;
    uint8 public constant WITHDRAW = 3;

    event IntentExecuted(bytes32 indexed digest, address indexed account, uint8 action);

    error ActionUnknown(uint8 action);

    /// @notice Executes one intent in its account's name, whoever sends it. Reverts whole, and is then not spent.
    /// @return result ABI-encoded: the id that the action made, if it made one.
    function execute(Intent calldata intent, bytes calldata signature) external returns (bytes memory result) {
        bytes32 digest = _spend(intent, signature);
        emit IntentExecuted(digest, intent.account, intent.action);
        if (intent.action == PLACE_ORDER) {
            (int128 size, uint64 notBefore) = abi.decode(intent.payload, (int128, uint64));
            return abi.encode(_placeOrder(intent.account, intent.market, size, notBefore));
        }
        if (intent.action == CANCEL_ORDER) {
            _cancelOrder(intent.account, abi.decode(intent.payload, (uint256)));
            return "";
        }
        if (intent.action == CLAIM) {
            (address payable recipient, uint256 amountWei) = abi.decode(intent.payload, (address, uint256));
            return abi.encode(_claim(intent.account, recipient, amountWei));
        }
        if (intent.action == WITHDRAW) {
            (address payable recipient, uint256 amountWei) = abi.decode(intent.payload, (address, uint256));
            _withdraw(intent.account, recipient, amountWei);
            return "";
        }
        revert ActionUnknown(intent.action);
    }
}
