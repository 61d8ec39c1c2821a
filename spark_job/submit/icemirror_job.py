"""The file for `spark-submit`, on EMR Serverless and on Kubernetes: a worker of icemirror, which must be installed."""

from __future__ import annotations

import sys

from spark_job.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
