"""Tags and filters of the console."""
