"""Names that more than one file of the context goes by."""

ROLE = "relayer"
# The job of an intent, and the job of a batch that carries some.
CHILD_KIND = "intents.child"
BATCH_KIND = "intents.batch"
