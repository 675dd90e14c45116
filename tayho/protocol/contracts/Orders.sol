// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Markets} from "./Markets.sol";

/// @title Orders and positions
/// @notice An order waits for its time; a keeper then executes it, once, into the account's position.
abstract contract Orders is Markets {
    bytes32 public constant AUTOMATION = "automation";

    enum OrderState {
        None,
        Open,
        Executed,
        Cancelled
    }

    struct Order {
        address account;
        bytes32 market;
        /// @dev Positive buys, negative sells; in units of the market.
        int128 size;
        /// @dev Seconds since 1970; not executed before.
        uint64 notBefore;
        OrderState state;
    }

    uint256 public orderCount;
    mapping(uint256 orderId => Order) public orders;
    mapping(address account => mapping(bytes32 market => int256)) public positions;

    event OrderPlaced(uint256 indexed orderId, address indexed account, bytes32 indexed market, int128 size, uint64 notBefore);
    event OrderExecuted(uint256 indexed orderId, address indexed account, bytes32 indexed market, int256 position);
    event OrderCancelled(uint256 indexed orderId);

    error OrderEmpty();
    error OrderNotOpen(uint256 orderId, OrderState state);
    error OrderNotDue(uint256 orderId, uint64 notBefore);
    error OrderOfAnother(uint256 orderId, address account);

    /// @notice Executes a due order. A second execution reverts, so that it already fails when it is simulated.
    function executeOrder(uint256 orderId) external onlyRole(AUTOMATION) whenRunning(orders[orderId].market) {
        Order storage order = orders[orderId];
        if (order.state != OrderState.Open) revert OrderNotOpen(orderId, order.state);
        if (order.notBefore > block.timestamp) revert OrderNotDue(orderId, order.notBefore);
        order.state = OrderState.Executed;
        int256 position = positions[order.account][order.market] + order.size;
        positions[order.account][order.market] = position;
        emit OrderExecuted(orderId, order.account, order.market, position);
    }

    function _placeOrder(address account, bytes32 market, int128 size, uint64 notBefore)
        internal
        whenRunning(market)
        returns (uint256 orderId)
    {
        if (size == 0) revert OrderEmpty();
        orderId = ++orderCount;
        orders[orderId] = Order(account, market, size, notBefore, OrderState.Open);
        emit OrderPlaced(orderId, account, market, size, notBefore);
    }

    function _cancelOrder(address account, uint256 orderId) internal {
        Order storage order = orders[orderId];
        if (order.state != OrderState.Open) revert OrderNotOpen(orderId, order.state);
        if (order.account != account) revert OrderOfAnother(orderId, account);
        order.state = OrderState.Cancelled;
        emit OrderCancelled(orderId);
    }
}
