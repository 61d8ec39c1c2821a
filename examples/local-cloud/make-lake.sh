#!/bin/sh
# LocalStack runs this when it is ready: it creates a bucket that sends commit events to a queue.
set -eu
awslocal s3api create-bucket --bucket lake
awslocal sqs create-queue --queue-name changelogs
awslocal s3api put-bucket-notification-configuration --bucket lake --notification-configuration '{
  "QueueConfigurations": [{
    "QueueArn": "arn:aws:sqs:us-east-1:000000000000:changelogs",
    "Events": ["s3:ObjectCreated:*"],
    "Filter": {"Key": {"FilterRules": [{"Name": "suffix", "Value": ".metadata.json"}]}}
  }]
}'
