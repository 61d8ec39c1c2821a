output "rules" {
  value       = { for name, rule in aws_cloudwatch_event_rule.this : name => rule.arn }
  description = "The rules that send to the queue."
}
