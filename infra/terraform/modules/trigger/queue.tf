locals {
  events_arn = "arn:${var.account.partition}:sqs:${var.account.region}:${var.account.id}:${var.name}-events"
}

# The event queue. A message that failed five times moves to the dead-letter queue, which has an alarm.
resource "aws_sqs_queue" "events" {
  name                       = "${var.name}-events"
  visibility_timeout_seconds = 6 * var.timeout_seconds # as AWS recommends for functions
  message_retention_seconds  = 4 * 24 * 3600
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  kms_master_key_id          = var.kms_key_arn
  tags                       = var.tags

  # Only these rules of this account can send.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "AllowRules"
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = local.events_arn
      Condition = {
        ArnEquals    = { "aws:SourceArn" = var.rule_arns }
        StringEquals = { "aws:SourceAccount" = var.account.id }
      }
    }]
  })

  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 5 })
}

resource "aws_sqs_queue" "dead" {
  name                      = "${var.name}-dead-letters"
  redrive_allow_policy      = jsonencode({ redrivePermission = "byQueue", sourceQueueArns = [local.events_arn] })
  message_retention_seconds = 14 * 24 * 3600
  sqs_managed_sse_enabled   = var.kms_key_arn == null ? true : null
  kms_master_key_id         = var.kms_key_arn
  tags                      = var.tags
}
