"""Where oracles and attesters have their facts from: a small port, an HTTP adapter and a file adapter."""
