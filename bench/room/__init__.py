"""What measurements share: servers of their own, HTTP load, the report."""
