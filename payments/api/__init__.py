"""The HTTP API: translate, make one call, translate back."""
