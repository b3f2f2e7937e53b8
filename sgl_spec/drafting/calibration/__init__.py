"""What the drafters' probabilities turn out to be worth, learned online: tables that every round reads and adds to."""
