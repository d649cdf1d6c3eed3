"""What every caller of the adviser does with the stores: knowledge in, reports stored and read."""
