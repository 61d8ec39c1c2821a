"""`python -m spark_job --request JSON` runs one worker."""

import sys

from spark_job.worker.main import main

if __name__ == "__main__":
    sys.exit(main())
