# The Lambda function that receives commit events and launches jobs.
locals {
  packed = base64gzip(var.configuration)
}

resource "aws_lambda_function" "this" {
  # checkov:skip=CKV_AWS_50: tracing would load more code than the function itself; its logs show each step
  # checkov:skip=CKV_AWS_115: the queue starts at most two at once; a reservation would take capacity from other functions
  # checkov:skip=CKV_AWS_116: the queue has a dead-letter queue; the schedule repeats its call
  # checkov:skip=CKV_AWS_117: it calls only AWS services, with signed requests
  # checkov:skip=CKV_AWS_272: the zip is built from locked hashes; code signing is a choice of the account
  function_name = var.name
  description   = "icemirror: receives commits on changelogs, launches jobs"
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
      error_message = "The configuration does not fit a function's environment of 4 KB. Use `discover` instead of listing tables."
    }
  }
}

resource "aws_lambda_event_source_mapping" "queue" {
  event_source_arn        = aws_sqs_queue.events.arn
  function_name           = aws_lambda_function.this.arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"] # one failed message does not fail its batch
  tags                    = var.tags

  scaling_config {
    maximum_concurrency = 2 # the minimum; notices of one table coalesce anyway
  }
}

# The sweep finds commits that no event reported.
resource "aws_cloudwatch_event_rule" "sweep" {
  name                = "${var.name}-sweep"
  description         = "icemirror: check all changelogs and running jobs"
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
