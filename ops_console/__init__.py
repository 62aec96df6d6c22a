"""Pages for operators; owns no rule about money."""
