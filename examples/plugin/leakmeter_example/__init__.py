"""An attack and a defense that leakmeter finds by their entry points."""
