"""The key index: where the live row of a key is, in Puffin files beside the table."""
