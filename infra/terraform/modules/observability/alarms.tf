locals {
  # Each sweep tells once how all tables stand. A period without it would leave an alarm as it is, for good.
  sweep_period = 60 * max(5, var.sweep_minutes)

  alarms = {
    lag = {
      says      = "A mirror is more than ${var.alarms.lag_seconds} s behind. `icemirror status` says which and why."
      namespace = local.namespace, metric = "lag_seconds", statistic = "Maximum", dimensions = {}
      period    = local.sweep_period, periods = 3, threshold = var.alarms.lag_seconds, missing = "ignore"
    }
    sweep = {
      says      = "The trigger has not looked at the changelogs for half an hour: see the function's log."
      namespace = local.namespace, metric = "lag_seconds", statistic = "SampleCount", dimensions = {}
      period    = 1800, periods = 1, threshold = null, missing = "breaching"
    }
    errors = {
      says      = "The trigger's function fails again and again: see its log."
      namespace = "AWS/Lambda", metric = "Errors", statistic = "Sum", dimensions = { FunctionName = var.function_name }
      period    = 300, periods = 3, threshold = 0, missing = "notBreaching"
    }
    launch-failures = {
      says      = "Jobs cannot be launched. `icemirror status` says why."
      namespace = local.namespace, metric = "launch_failures", statistic = "Sum", dimensions = {}
      period    = 300, periods = 3, threshold = 0, missing = "notBreaching"
    }
    lost-workers = {
      says      = "Jobs die: see their logs in S3."
      namespace = local.namespace, metric = "lost_workers", statistic = "Sum", dimensions = {}
      period    = 3600, periods = 1, threshold = 3, missing = "notBreaching"
    }
    turn = {
      says      = "A job took more than ${var.alarms.turn_seconds} s for one table: a large backlog, or too few workers. See its log."
      namespace = local.namespace, metric = "turn_seconds", statistic = "Maximum", dimensions = {}
      period    = local.sweep_period, periods = 1, threshold = var.alarms.turn_seconds, missing = "ignore"
    }
    quarantine = {
      says      = "A table needs a person. `icemirror status` says why; `icemirror resume` takes it again."
      namespace = local.namespace, metric = "quarantined_tables", statistic = "Maximum", dimensions = {}
      period    = local.sweep_period, periods = 1, threshold = 0, missing = "ignore"
    }
    dead-letters = {
      says      = "Events could not be understood. `icemirror dead-letters` shows them."
      namespace = local.namespace, metric = "dead_letters", statistic = "Sum", dimensions = {}
      period    = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    dead-messages = {
      says       = "Messages failed too often and lie in ${var.queue_names.dead_letters}."
      namespace  = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum"
      dimensions = { QueueName = var.queue_names.dead_letters }
      period     = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    maintenance = {
      says       = "`icemirror maintain` failed, or could not be started: a message in ${coalesce(var.queue_names.failed_maintenance, "its queue")} says which run, or why. See its log in S3."
      namespace  = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum"
      dimensions = { QueueName = var.queue_names.failed_maintenance }
      period     = 300, periods = 1, threshold = 0, missing = "notBreaching"
    }
    queue-age = {
      says       = "Events wait for a quarter of an hour: the function does not keep up, or fails."
      namespace  = "AWS/SQS", metric = "ApproximateAgeOfOldestMessage", statistic = "Maximum"
      dimensions = { QueueName = var.queue_names.events }
      period     = 300, periods = 3, threshold = 900, missing = "notBreaching"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = { for name, alarm in local.alarms : name => alarm if name != "maintenance" || var.queue_names.failed_maintenance != null }

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.says
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

# What runs costs: many vCPUs for long. EMR's metrics have more dimensions from release to release, so they are asked
# for by a query; the greatest of an application is that of all its workers. It falls to nothing now and then while they
# work, so that most of the time is enough.
resource "aws_cloudwatch_metric_alarm" "cost" {
  alarm_name          = "${var.name}-cost"
  alarm_description   = "Jobs have held more than ${var.alarms.vcpu} vCPUs for three hours."
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
