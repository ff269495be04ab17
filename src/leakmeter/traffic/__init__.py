"""Made-up traffic with known truth: honest users with habits, thieves at work, and the access log they leave."""
