// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @title Counter of recorded jobs
/// @notice The smallest effect that a job can have on a chain: one number grows and one event names the job.
/// @dev The event logs are the evidence. Whoever counts them per job id learns whether a job took effect never, once,
///      or more than once; the contract itself must therefore let a duplicate through when it is asked to.
contract Counter {
    /// @notice How many records were made since deployment, duplicates included.
    uint256 public count;

    /// @notice Whether a job id was recorded at least once, by either function.
    mapping(bytes32 jobId => bool) public recorded;

    /// @notice A record was made.
    /// @param jobId The job whose effect this is.
    /// @param sender The account that sent the call.
    /// @param count The number of this record: 1 for the first since deployment, without gaps.
    event Recorded(bytes32 indexed jobId, address indexed sender, uint256 count);

    /// @notice `recordOnce` was asked for a job id that already has a record.
    error AlreadyRecorded(bytes32 jobId);

    /// @notice Records a job, again and again if asked again and again.
    /// @dev Refuses nothing on purpose: a coordinator that sends twice must be seen to have sent twice.
    function record(bytes32 jobId) external {
        _record(jobId);
    }

    /// @notice Records a job that has no record yet.
    /// @dev Reverts with `AlreadyRecorded` otherwise, so that a repeated call already fails when it is simulated.
    function recordOnce(bytes32 jobId) external {
        if (recorded[jobId]) revert AlreadyRecorded(jobId);
        _record(jobId);
    }

    function _record(bytes32 jobId) private {
        recorded[jobId] = true;
        count += 1;
        emit Recorded(jobId, msg.sender, count);
    }
}
