"""Orders, payments, channels, money and events: the ground floor."""
