"""Choose the next trials of a campaign."""
