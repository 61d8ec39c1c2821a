"""Which of Spark's properties must be known before its Java starts; all others a job sets by itself."""

from __future__ import annotations

# Whoever may list processes, or describe jobs, reads what is given at the start: so it is no more than must be.
AT_START = ("spark.driver.", "spark.jars", "spark.files", "spark.archives", "spark.submit.")
