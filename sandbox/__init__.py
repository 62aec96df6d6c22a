"""A bank of its own process that misbehaves on demand; run it with ``python -m sandbox``."""
