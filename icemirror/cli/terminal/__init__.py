"""Terminal output: tables, progress, wording of errors."""
