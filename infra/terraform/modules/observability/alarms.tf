locals {
  # Each sweep reports once on all tables. Periods are at least as long as the sweep interval: an alarm keeps its state
  # in a period without data.
  sweep_period = 60 * max(5, var.sweep_minutes)

  alarms = {
    lag = {
      description = "A mirror is more than ${var.alarms.lag_seconds} s behind. `icemirror status` shows which and why."
      namespace   = local.namespace, metric = "lag_seconds", statistic = "Maximum", dimensions = {}
      period      = local.sweep_period, periods = 3, threshold = var.alarms.lag_seconds, missing = "ignore"
    }
    sweep = {
      description = "No sweep for 30 minutes. See the function's log."
      namespace   = local.namespace, metric = "lag_seconds", statistic = "SampleCount", dimensions = {}
      period      = 1800, periods = 1, threshold = null, missing = "breaching"
    }
    errors = {
      description = "The trigger's function keeps failing. See its log."
      namespace   = "AWS/Lambda", metric = "Errors", statistic = "Sum", dimensions = { FunctionName = var.function_name }
      period      = 300, periods = 3, threshold = 0, missing = "notBreaching"
    }
    launch-failures = {
      description = "Jobs cannot be launched. `icemirror status` shows why."
      namespace   = local.namespace, metric = "launch_failures", statistic = "Sum", dimensions = {}
      period      = 300, periods = 3, threshold = 0, missing = "notBreaching"
    }
    lost-workers = {
      description = "Jobs end unexpectedly. See their logs in S3."
      namespace   = local.namespace, metric = "lost_workers", statistic = "Sum", dimensions = {}
      period      = 3600, periods = 1, threshold = 3, missing = "notBreaching"
    }
    turn = {
      description = "A turn on one table took more than ${var.alarms.turn_seconds} s: the backlog is large, or there are too few workers. See the job's log."
      namespace   = local.namespace, metric = "turn_seconds", statistic = "Maximum", dimensions = {}
      period      = local.sweep_period, periods = 1, threshold = var.alarms.turn_seconds, missing = "ignore"
    }
    quarantine = {
      description = "A table is quarantined. `icemirror status` shows why; `icemirror resume` continues it."
      namespace   = local.namespace, metric = "quarantined_tables", statistic = "Maximum", dimensions = {}
      period      = local.sweep_period, periods = 1, threshold = 0, missing = "ignore"
    }
    dead-letters = {
      description = "Events could not be parsed. `icemirror dead-letters` shows them."
      namespace   = local.namespace, metric = "dead_letters", statistic = "Sum", dimensions = {}
      period      = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    dead-messages = {
      description = "Messages failed five times and are in ${var.queue_names.dead_letters}."
      namespace   = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum"
      dimensions  = { QueueName = var.queue_names.dead_letters }
      period      = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    maintenance = {
      description = "`icemirror maintain` failed or did not start. A message in ${coalesce(var.queue_names.failed_maintenance, "its queue")} names the run or the reason. See the log in S3."
      namespace   = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum"
      dimensions  = { QueueName = var.queue_names.failed_maintenance }
      period      = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    queue-age = {
      description = "Events wait for more than 15 minutes: the function is too slow or fails."
      namespace   = "AWS/SQS", metric = "ApproximateAgeOfOldestMessage", statistic = "Maximum"
      dimensions  = { QueueName = var.queue_names.events }
      period      = 300, periods = 3, threshold = 900, missing = "notBreaching"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = { for name, alarm in local.alarms : name => alarm if name != "maintenance" || var.queue_names.failed_maintenance != null }

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  statistic           = each.value.statistic
  dimensions          = each.value.dimensions
  period              = each.value.period
  evaluation_periods  = each.value.periods
  comparison_operator = each.value.threshold == null ? "LessThanThreshold" : "GreaterThanThreshold"
  threshold           = each.value.threshold == null ? 1 : each.value.threshold
  treat_missing_data  = each.value.missing
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags
}

# Cost alarm: many vCPUs for a long time.
# A query selects the metric, because EMR adds dimensions from release to release.
# The maximum of an application covers all its workers.
# The metric drops to zero at times while workers run, so 30 of 36 periods are enough.
resource "aws_cloudwatch_metric_alarm" "cost" {
  alarm_name          = "${var.name}-cost"
  alarm_description   = "Jobs used more than ${var.alarms.vcpu} vCPUs for three hours."
  evaluation_periods  = 36
  datapoints_to_alarm = 30
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarms.vcpu
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags

  metric_query {
    id          = "vcpu"
    return_data = true
    period      = 300
    expression  = "SELECT MAX(CPUAllocated) FROM \"AWS/EMRServerless\" WHERE ApplicationId = '${var.application_id}'"
  }
}
