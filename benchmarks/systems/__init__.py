"""What is measured: one file for each system, all behind one protocol."""
