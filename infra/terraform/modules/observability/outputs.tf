output "log_group" {
  value       = { name = aws_cloudwatch_log_group.trigger.name, arn = aws_cloudwatch_log_group.trigger.arn }
  description = "Log group of the function."
}

output "dashboard_name" {
  value       = aws_cloudwatch_dashboard.this.dashboard_name
  description = "Name of the CloudWatch dashboard."
}

output "alarm_names" {
  value       = concat([for alarm in aws_cloudwatch_metric_alarm.this : alarm.alarm_name], [aws_cloudwatch_metric_alarm.cost.alarm_name])
  description = "Names of the CloudWatch alarms."
}
