# What went wrong, for an alarm to see: runs that failed, and those that could not be started. A message stays until
# the next night's run has ended: a day, six hours of a run, and the window that it may start in.
locals {
  # A run's event does not tell its role; who asked for the run, it does.
  asked_for_by = replace(replace(var.scheduler_role_arn, ":iam:", ":sts:"), ":role/", ":assumed-role/")
}

resource "aws_sqs_queue" "failures" {
  name                      = "${var.name}-maintenance-failures"
  message_retention_seconds = 31 * 3600
  sqs_managed_sse_enabled   = var.kms_key_arn == null ? true : null
  kms_master_key_id         = var.kms_key_arn
  tags                      = var.tags
}

# The scheduler sends in its own role.
resource "aws_sqs_queue_policy" "failures" {
  queue_url = aws_sqs_queue.failures.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyOurRule"
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
  description = "icemirror: maintenance that failed, was cancelled, or took too long"
  tags        = var.tags

  event_pattern = jsonencode({
    source        = ["aws.emr-serverless"]
    "detail-type" = ["EMR Serverless Job Run State Change"]
    account       = [var.account_id]
    detail = {
      applicationId = [var.application_id]
      createdBy     = [{ prefix = "${local.asked_for_by}/" }]
      state         = ["FAILED", "CANCELLED"] # one that took too long is cancelled
    }
  })
}

resource "aws_cloudwatch_event_target" "failed" {
  rule = aws_cloudwatch_event_rule.failed.name
  arn  = aws_sqs_queue.failures.arn
}
