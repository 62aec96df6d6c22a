"""Split batches: what payees are owed, and paying it."""
