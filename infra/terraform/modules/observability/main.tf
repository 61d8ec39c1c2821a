# Logs of the function, and metrics extracted from them: the function itself publishes none.
resource "aws_cloudwatch_log_group" "trigger" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

locals {
  namespace = "icemirror/${var.name}"

  # Each sweep logs a summary of all tables; the other metrics count log lines.
  metrics = {
    lag_seconds        = { pattern = "{ $.event = \"swept\" }", value = "$.lag_seconds", default = null }
    quarantined_tables = { pattern = "{ $.event = \"swept\" }", value = "$.quarantined", default = null }
    turn_seconds       = { pattern = "{ $.event = \"swept\" }", value = "$.turn_seconds", default = null }
    waiting_tables     = { pattern = "{ $.event = \"swept\" }", value = "$.waiting", default = null }
    notices            = { pattern = "{ ($.event = \"commit noticed\") || ($.event = \"changelog moved\") }", value = "1", default = "0" }
    launches           = { pattern = "{ $.event = \"worker launched\" }", value = "1", default = "0" }
    launch_failures    = { pattern = "{ $.event = \"launch failed\" }", value = "1", default = "0" }
    lost_workers       = { pattern = "{ $.event = \"worker lost\" }", value = "1", default = "0" }
    dead_letters       = { pattern = "{ $.event = \"event refused, kept as a dead letter\" }", value = "1", default = "0" }
  }

  actions = var.alarms.topic_arn == null ? [] : [var.alarms.topic_arn]
}

resource "aws_cloudwatch_log_metric_filter" "this" {
  for_each = local.metrics

  name           = "${var.name}-${each.key}"
  log_group_name = aws_cloudwatch_log_group.trigger.name
  pattern        = each.value.pattern

  metric_transformation {
    namespace     = local.namespace
    name          = each.key
    value         = each.value.value
    default_value = each.value.default
  }
}
