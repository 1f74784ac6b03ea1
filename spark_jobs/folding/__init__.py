"""Changes to rows, by position alone: folds, and what is stored against them."""
