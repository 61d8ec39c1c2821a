output "failures" {
  value       = { name = aws_sqs_queue.failures.name, url = aws_sqs_queue.failures.url, arn = aws_sqs_queue.failures.arn }
  description = "Queue of runs that failed or did not start."
}

output "run" {
  value       = local.run
  description = "Request that starts the job run."
}
