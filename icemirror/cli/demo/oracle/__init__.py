"""The independent judge: what a mirror must hold, found twice over without any code of the product."""
