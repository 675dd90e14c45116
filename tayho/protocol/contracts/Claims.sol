// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Roles} from "./Roles.sol";

/// @title Balances, withdrawal claims and revenue
/// @notice Deposits are ether. A withdrawal is first a claim, then paid out once. Fees gather as revenue, shared out by epoch.
abstract contract Claims is Roles {
    bytes32 public constant PAYOUTS = "payouts";
    bytes32 public constant REVENUE = "revenue";
    /// @dev Of each withdrawal, in basis points.
    uint256 public constant FEE_BASIS_POINTS = 10;

    struct Claim {
        address account;
        address payable recipient;
        uint256 amountWei;
        bool isPaid;
    }

    mapping(address account => uint256) public balances;
    uint256 public claimCount;
    mapping(uint256 claimId => Claim) public claims;
    uint256 public revenueWei;
    mapping(uint64 epoch => bool) public isDistributed;

    event Deposited(address indexed account, uint256 amountWei);
    event ClaimMade(uint256 indexed claimId, address indexed account, address recipient, uint256 amountWei);
    event ClaimPaid(uint256 indexed claimId, uint256 amountWei);
    event RevenueDistributed(uint64 indexed epoch, address indexed treasury, uint256 amountWei);

    error BalanceTooLow(address account, uint256 balanceWei, uint256 amountWei);
    error ClaimUnknown(uint256 claimId);
    error ClaimPaidAlready(uint256 claimId);
    error PaymentFailed(address recipient);
    error DistributedAlready(uint64 epoch);

    function deposit() external payable {
        balances[msg.sender] += msg.value;
        emit Deposited(msg.sender, msg.value);
    }

    /// @notice Pays a claim out, once. The recipient's own code runs with all the gas that is left: a keeper bounds it.
    function payClaim(uint256 claimId) external onlyRole(PAYOUTS) {
        Claim storage claim = claims[claimId];
        if (claim.account == address(0)) revert ClaimUnknown(claimId);
        if (claim.isPaid) revert ClaimPaidAlready(claimId);
        claim.isPaid = true;
        _pay(claim.recipient, claim.amountWei);
        emit ClaimPaid(claimId, claim.amountWei);
    }

    /// @notice Sends what has gathered to the treasury, once an epoch.
    function distributeRevenue(uint64 epoch, address payable treasury) external onlyRole(REVENUE) {
        if (isDistributed[epoch]) revert DistributedAlready(epoch);
        isDistributed[epoch] = true;
        uint256 amountWei = revenueWei;
        revenueWei = 0;
        _pay(treasury, amountWei);
        emit RevenueDistributed(epoch, treasury, amountWei);
    }

    function _claim(address account, address payable recipient, uint256 amountWei) internal returns (uint256 claimId) {
        uint256 netWei = _take(account, amountWei);
        claimId = ++claimCount;
        claims[claimId] = Claim(account, recipient, netWei, false);
        emit ClaimMade(claimId, account, recipient, netWei);
    }

    /// @dev Pays at once, without a claim. The recipient's own code runs: callers come here last.
    function _withdraw(address account, address payable recipient, uint256 amountWei) internal {
        _pay(recipient, _take(account, amountWei));
    }

    function _take(address account, uint256 amountWei) private returns (uint256 netWei) {
        if (balances[account] < amountWei) revert BalanceTooLow(account, balances[account], amountWei);
        balances[account] -= amountWei;
        uint256 feeWei = amountWei * FEE_BASIS_POINTS / 10_000;
        revenueWei += feeWei;
        return amountWei - feeWei;
    }

    function _pay(address payable recipient, uint256 amountWei) private {
        bool isPaid;
        // Nothing of what the recipient returns is copied: a megabyte of it would be charged to the caller.
        assembly ("memory-safe") {
            isPaid := call(gas(), recipient, amountWei, 0, 0, 0, 0)
        }
        if (!isPaid) revert PaymentFailed(recipient);
    }
}
