"""What an access log says: who holds how good a copy by now."""
