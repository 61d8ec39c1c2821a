"""Where `serve` hears of commits: Kafka, SQS, HTTP."""
