output "function" {
  value       = { name = aws_lambda_function.this.function_name, arn = aws_lambda_function.this.arn, architecture = one(aws_lambda_function.this.architectures), timeout_seconds = aws_lambda_function.this.timeout }
  description = "The function: name, ARN, CPU architecture and timeout."
}

output "queue" {
  value       = { name = aws_sqs_queue.events.name, arn = aws_sqs_queue.events.arn, url = aws_sqs_queue.events.id }
  description = "Event queue: name, ARN and URL."
}

output "dead_letters" {
  value       = { name = aws_sqs_queue.dead.name, arn = aws_sqs_queue.dead.arn, url = aws_sqs_queue.dead.id }
  description = "Queue of messages that failed five times: name, ARN and URL."
}

output "state_table" {
  value       = { name = aws_dynamodb_table.state.name, arn = aws_dynamodb_table.state.arn }
  description = "DynamoDB table with the state: name and ARN."
}
