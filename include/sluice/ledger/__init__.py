"""The ledger: files, batches and publications, and which process works on which pipeline."""
