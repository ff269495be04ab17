"""Models under audit: whatever computes answers, behind one face."""
