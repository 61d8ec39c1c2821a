locals {
  icemirror_metrics = { for name in keys(local.metrics) : name => [local.namespace, name] }
  # Metrics of the application, which have these two dimensions since release 7.10; this excludes the metrics of each job.
  emr = "{AWS/EMRServerless,ApplicationId,ApplicationName} ApplicationId=\"${var.application_id}\""

  widgets = [
    { title = "Lag, seconds", stat = "Maximum", metrics = [local.icemirror_metrics.lag_seconds] },
    { title = "Waiting and quarantined tables", stat = "Maximum", metrics = [local.icemirror_metrics.waiting_tables, local.icemirror_metrics.quarantined_tables] },
    { title = "Commits noticed, jobs launched", stat = "Sum", metrics = [local.icemirror_metrics.notices, local.icemirror_metrics.launches] },
    { title = "Failures", stat = "Sum", metrics = [local.icemirror_metrics.launch_failures, local.icemirror_metrics.lost_workers, local.icemirror_metrics.dead_letters, ["AWS/Lambda", "Errors", "FunctionName", var.function_name]] },
    { title = "Longest turn, seconds", stat = "Maximum", metrics = [local.icemirror_metrics.turn_seconds] },
    { title = "Jobs", stat = "Maximum", metrics = [[{ expression = "SEARCH('${local.emr} (MetricName=\"RunningJobs\" OR MetricName=\"FailedJobs\")', 'Maximum', 60)" }]] },
    { title = "vCPUs in use (cost)", stat = "Maximum", metrics = [[{ expression = "SEARCH('${local.emr} MetricName=\"CPUAllocated\"', 'Maximum', 60)" }]] },
    { title = "Function, milliseconds", stat = "p95", metrics = [["AWS/Lambda", "Duration", "FunctionName", var.function_name]] },
    { title = "Messages in queues", stat = "Maximum", metrics = [for name in values(var.queue_names) : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", name] if name != null] },
  ]
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = [for at, widget in local.widgets : {
      type       = "metric"
      x          = at % 2 * 12
      y          = floor(at / 2) * 6
      width      = 12
      height     = 6
      properties = { title = widget.title, stat = widget.stat, period = 60, region = var.region, view = "timeSeries", metrics = widget.metrics }
    }]
  })
}
