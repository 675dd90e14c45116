// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @title Session keys
/// @notice An account lets a key sign intents in its name: for some actions, in one market or in all, until a time.
abstract contract Sessions {
    struct Session {
        /// @dev Seconds since 1970; the session ends with this second. Zero is no session.
        uint64 expiresAt;
        /// @dev Bit n allows action n.
        uint64 permissions;
        /// @dev The only market allowed; zero allows all.
        bytes32 market;
    }

    mapping(address account => mapping(address key => Session)) public sessions;

    event SessionGranted(address indexed account, address indexed key, uint64 permissions, bytes32 market, uint64 expiresAt);
    event SessionRevoked(address indexed account, address indexed key);

    error SessionExpiryPassed(uint64 expiresAt);
    error SessionUnknown(address account, address key);
    error SessionExpired(address account, address key, uint64 expiresAt);
    error ActionNotPermitted(address key, uint8 action);
    error MarketOutOfScope(address key, bytes32 market);

    /// @notice Grants or changes the session of a key for the caller's account.
    function grantSession(address key, uint64 permissions, bytes32 market, uint64 expiresAt) external {
        if (expiresAt < block.timestamp) revert SessionExpiryPassed(expiresAt);
        sessions[msg.sender][key] = Session(expiresAt, permissions, market);
        emit SessionGranted(msg.sender, key, permissions, market, expiresAt);
    }

    /// @notice Ends the session at once. Intents that were signed and not yet executed are refused from then on.
    function revokeSession(address key) external {
        delete sessions[msg.sender][key];
        emit SessionRevoked(msg.sender, key);
    }

    /// @dev Reverts unless the key may do the action in the market for the account now.
    function _requirePermitted(address account, address key, uint8 action, bytes32 market) internal view {
        Session memory session = sessions[account][key];
        if (session.expiresAt == 0) revert SessionUnknown(account, key);
        if (session.expiresAt < block.timestamp) revert SessionExpired(account, key, session.expiresAt);
        if (action >= 64 || session.permissions & (uint64(1) << action) == 0) revert ActionNotPermitted(key, action);
        if (session.market != 0 && session.market != market) revert MarketOutOfScope(key, market);
    }
}
