"""Stores for the state rows: SQLite, DynamoDB, Kubernetes."""
