"""Where a changelog's head is, asked of its catalog lightly: no data access, no PyIceberg."""
