output "function" {
  value       = { name = aws_lambda_function.this.function_name, arn = aws_lambda_function.this.arn, architecture = one(aws_lambda_function.this.architectures), timeout_seconds = aws_lambda_function.this.timeout }
  description = "The function, its processors, and how long it may run."
}

output "queue" {
  value       = { name = aws_sqs_queue.events.name, arn = aws_sqs_queue.events.arn, url = aws_sqs_queue.events.id }
  description = "The queue that events are sent to."
}

output "dead_letters" {
  value       = { name = aws_sqs_queue.dead.name, arn = aws_sqs_queue.dead.arn, url = aws_sqs_queue.dead.id }
  description = "The queue of messages that failed too often."
}

output "state_table" {
  value       = { name = aws_dynamodb_table.state.name, arn = aws_dynamodb_table.state.arn }
  description = "The table of the state."
}
