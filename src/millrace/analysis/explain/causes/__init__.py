"""What a difference in time may come from: suspects with their evidence, the likeliest first."""
