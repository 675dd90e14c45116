// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {Roles} from "./Roles.sol";

/// @title Markets and what is attested of them
/// @notice Pause by a guardian, funding per market and epoch, depth and resolution by attesters. Each fact is posted once.
abstract contract Markets is Roles {
    bytes32 public constant GUARDIAN = "guardian";
    bytes32 public constant FUNDING_ORACLE = "funding-oracle";
    bytes32 public constant DEPTH_ATTESTER = "depth-attester";
    bytes32 public constant RESOLUTION_ATTESTER = "resolution-attester";

    struct Fact {
        bool isPosted;
        int128 value;
        uint64 postedAt;
    }

    mapping(bytes32 market => bool) public isPaused;
    mapping(bytes32 market => mapping(uint64 epoch => Fact)) public funding;
    mapping(bytes32 market => mapping(uint64 epoch => Fact)) public depth;
    mapping(bytes32 market => Fact) public resolution;

    event MarketPaused(bytes32 indexed market, bytes32 reason);
    event MarketResumed(bytes32 indexed market);
    event FundingPosted(bytes32 indexed market, uint64 indexed epoch, int128 rate);
    event DepthAttested(bytes32 indexed market, uint64 indexed epoch, int128 depth);
    event MarketResolved(bytes32 indexed market, int128 outcome);

    error MarketIsPaused(bytes32 market);
    error MarketIsNotPaused(bytes32 market);
    error PostedAlready(bytes32 market, uint64 epoch);

    modifier whenRunning(bytes32 market) {
        if (isPaused[market]) revert MarketIsPaused(market);
        _;
    }

    /// @notice Stops a market. A second pause reverts, so that it already fails when it is simulated.
    function pauseMarket(bytes32 market, bytes32 reason) external onlyRole(GUARDIAN) whenRunning(market) {
        isPaused[market] = true;
        emit MarketPaused(market, reason);
    }

    function resumeMarket(bytes32 market) external onlyOwner {
        if (!isPaused[market]) revert MarketIsNotPaused(market);
        isPaused[market] = false;
        emit MarketResumed(market);
    }

    /// @param rate Funding of the epoch, in 1e-18 of the position.
    function postFunding(bytes32 market, uint64 epoch, int128 rate) external onlyRole(FUNDING_ORACLE) {
        _post(funding[market][epoch], market, epoch, rate);
        emit FundingPosted(market, epoch, rate);
    }

    /// @param value Depth of the book, in units of the market.
    function attestDepth(bytes32 market, uint64 epoch, int128 value) external onlyRole(DEPTH_ATTESTER) {
        _post(depth[market][epoch], market, epoch, value);
        emit DepthAttested(market, epoch, value);
    }

    function attestResolution(bytes32 market, int128 outcome) external onlyRole(RESOLUTION_ATTESTER) {
        _post(resolution[market], market, 0, outcome);
        emit MarketResolved(market, outcome);
    }

    function _post(Fact storage fact, bytes32 market, uint64 epoch, int128 value) private {
        if (fact.isPosted) revert PostedAlready(market, epoch);
        (fact.isPosted, fact.value, fact.postedAt) = (true, value, uint64(block.timestamp));
    }
}
