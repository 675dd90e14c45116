"""A host that looks up, and holds a key."""

import eth_account  # breaks keys-in-custody
import tayho.api.health  # breaks inside-tayho
import tayho.cli.main  # breaks inside-tayho
