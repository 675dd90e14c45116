"""Another such context."""

import coincurve  # breaks keys-in-custody
import cryptography  # breaks keys-in-custody
import eth_keys  # breaks keys-in-custody
import tayho.coordination.store  # breaks contexts, breaks inside-tayho
