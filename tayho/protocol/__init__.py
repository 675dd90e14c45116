"""The reference protocol: Solidity contracts, their artifacts, and the job kinds that call them."""
