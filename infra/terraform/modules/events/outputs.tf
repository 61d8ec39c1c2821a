output "rules" {
  value       = { for name, rule in aws_cloudwatch_event_rule.this : name => rule.arn }
  description = "ARNs of the EventBridge rules that send to the queue, keyed by rule name."
}
