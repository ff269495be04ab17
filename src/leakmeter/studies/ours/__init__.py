"""What goes past the papers."""
