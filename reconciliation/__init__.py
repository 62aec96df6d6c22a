"""Matching what banks and channels say with what we say."""
