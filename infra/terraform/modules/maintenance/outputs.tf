output "failures" {
  value       = { name = aws_sqs_queue.failures.name, url = aws_sqs_queue.failures.url, arn = aws_sqs_queue.failures.arn }
  description = "The queue of runs that failed or could not be started."
}

output "run" {
  value       = local.run
  description = "What EMR is asked for."
}
