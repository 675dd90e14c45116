"""Why a job is where it is (DLV-14)."""
