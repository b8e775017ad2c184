"""Around an agent: train, evaluate, record, export, and what later verbs add. Import the module you need."""
