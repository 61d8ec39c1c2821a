# The function that hears of commits and launches jobs.
locals {
  packed = base64gzip(var.configuration)
}

resource "aws_lambda_function" "this" {
  # checkov:skip=CKV_AWS_50: traces would load more than all the rest of the function; its logs tell each step
  # checkov:skip=CKV_AWS_115: the queue calls two at once at most; a reserve would be taken from others
  # checkov:skip=CKV_AWS_116: the queue has dead letters; what the schedule calls is called again
  # checkov:skip=CKV_AWS_117: it reaches AWS' own services only, with signed requests
  # checkov:skip=CKV_AWS_272: the zip is built from locked hashes; who signs is the account's to say
  function_name = var.name
  description   = "icemirror: notices commits on changelogs, launches jobs"
  role          = var.role_arn
  architectures = [var.architecture]
  memory_size   = 512
  timeout       = var.timeout_seconds
  kms_key_arn   = var.kms_key_arn
  tags          = var.tags

  package_type     = var.package.image == null ? "Zip" : "Image"
  image_uri        = var.package.image
  filename         = var.package.zip
  source_code_hash = var.package.zip == null ? null : filebase64sha256(var.package.zip)
  runtime          = var.package.zip == null ? null : var.package.runtime
  handler          = var.package.zip == null ? null : "trigger.handler.handler"

  environment {
    variables = { ICEMIRROR_CONFIG_PACKED = local.packed }
  }

  logging_config {
    log_format = "Text" # the lines are JSON already
    log_group  = var.log_group_name
  }

  lifecycle {
    precondition {
      condition     = length(local.packed) <= 3900
      error_message = "The configuration is too long for a function's environment, which holds 4 KB: use `discover` instead of listing so many tables."
    }
  }
}

resource "aws_lambda_event_source_mapping" "queue" {
  event_source_arn        = aws_sqs_queue.events.arn
  function_name           = aws_lambda_function.this.arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"] # a message that cannot be understood fails alone
  tags                    = var.tags

  scaling_config {
    maximum_concurrency = 2 # the least; notices of one table coalesce in any case
  }
}

# What no event told of is found by looking.
resource "aws_cloudwatch_event_rule" "sweep" {
  name                = "${var.name}-sweep"
  description         = "icemirror: look at all changelogs, and after jobs"
  schedule_expression = "rate(${var.sweep_minutes} ${var.sweep_minutes == 1 ? "minute" : "minutes"})"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "sweep" {
  rule  = aws_cloudwatch_event_rule.sweep.name
  arn   = aws_lambda_function.this.arn
  input = jsonencode({ icemirror = "sweep" })
}

resource "aws_lambda_permission" "sweep" {
  statement_id  = "sweep"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.this.function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.sweep.arn
}
