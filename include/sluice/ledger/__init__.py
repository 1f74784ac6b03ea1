"""The record of files, batches and publications, and who works on which pipeline."""
