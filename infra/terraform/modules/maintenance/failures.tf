# A queue of failed runs and starts; an alarm counts its messages. Messages are kept until the next nightly run has ended:
# 24 hours, six hours of run time, and the start window.
locals {
  # The event of a run names the caller that started it, not the role that it runs in.
  created_by = replace(replace(var.scheduler_role_arn, ":iam:", ":sts:"), ":role/", ":assumed-role/")
}

resource "aws_sqs_queue" "failures" {
  name                      = "${var.name}-maintenance-failures"
  message_retention_seconds = 31 * 3600
  sqs_managed_sse_enabled   = var.kms_key_arn == null ? true : null
  kms_master_key_id         = var.kms_key_arn
  tags                      = var.tags
}

# The scheduler needs no statement here: its role allows sending.
resource "aws_sqs_queue_policy" "failures" {
  queue_url = aws_sqs_queue.failures.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "AllowRule"
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.failures.arn
      Condition = {
        ArnEquals    = { "aws:SourceArn" = aws_cloudwatch_event_rule.failed.arn }
        StringEquals = { "aws:SourceAccount" = var.account_id }
      }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "failed" {
  name        = "${var.name}-maintenance-failed"
  description = "icemirror: maintenance that failed, timed out or was cancelled"
  tags        = var.tags

  event_pattern = jsonencode({
    source        = ["aws.emr-serverless"]
    "detail-type" = ["EMR Serverless Job Run State Change"]
    account       = [var.account_id]
    detail = {
      applicationId = [var.application_id]
      createdBy     = [{ prefix = "${local.created_by}/" }]
      state         = ["FAILED", "CANCELLED"] # a run that times out is cancelled
    }
  })
}

resource "aws_cloudwatch_event_target" "failed" {
  rule = aws_cloudwatch_event_rule.failed.name
  arn  = aws_sqs_queue.failures.arn
}
