"""The stages of a batch, and what operators do with batches, one module each."""
