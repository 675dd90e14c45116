// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @title Who may do what
/// @notice One owner grants and revokes named roles; a role is what a keeper's signer holds.
abstract contract Roles {
    address public immutable owner;

    mapping(bytes32 role => mapping(address account => bool)) public hasRole;

    event RoleGranted(bytes32 indexed role, address indexed account);
    event RoleRevoked(bytes32 indexed role, address indexed account);

    error NotOwner(address account);
    error RoleMissing(bytes32 role, address account);

    modifier onlyRole(bytes32 role) {
        if (!hasRole[role][msg.sender]) revert RoleMissing(role, msg.sender);
        _;
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotOwner(msg.sender);
        _;
    }

    constructor() {
        owner = msg.sender;
    }

    function grantRole(bytes32 role, address account) external onlyOwner {
        hasRole[role][account] = true;
        emit RoleGranted(role, account);
    }

    function revokeRole(bytes32 role, address account) external onlyOwner {
        hasRole[role][account] = false;
        emit RoleRevoked(role, account);
    }
}
