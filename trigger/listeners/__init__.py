"""Where `serve` receives events: Kafka, SQS, HTTP."""
