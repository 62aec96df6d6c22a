"""The console's pages: each translates, makes one call, and translates back."""
