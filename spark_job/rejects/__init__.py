"""Bad rows of a changelog: the first slice is validated; rejects of later ones are recorded exactly once."""
