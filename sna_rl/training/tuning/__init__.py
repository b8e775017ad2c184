"""Searching hyperparameters: spaces, trials on a shared storage, and what came out."""
