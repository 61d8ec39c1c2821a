output "log_group" {
  value       = { name = aws_cloudwatch_log_group.trigger.name, arn = aws_cloudwatch_log_group.trigger.arn }
  description = "Logs of the function."
}

output "dashboard_name" {
  value       = aws_cloudwatch_dashboard.this.dashboard_name
  description = "The dashboard in CloudWatch."
}

output "alarm_names" {
  value       = concat([for alarm in aws_cloudwatch_metric_alarm.this : alarm.alarm_name], [aws_cloudwatch_metric_alarm.cost.alarm_name])
  description = "The alarms in CloudWatch."
}
