"""Measurements: each module here is one, bin/bench NAME [--quick]. They start their own servers (room/)."""
