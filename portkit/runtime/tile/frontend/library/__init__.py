"""What each function of the tile language emits: one function of the same name for each, found by walking."""
