output "configuration" {
  value       = local.configuration
  description = "Configuration of the trigger and the jobs: `terraform output -json | icemirror config from-terraform > icemirror.yaml`."

  precondition {
    condition     = length(local.option_errors) == 0
    error_message = join("\n", local.option_errors)
  }
}

output "queue_url" {
  value       = module.trigger.queue.url
  description = "URL of the event queue, for your own event sources."
}

output "dead_letters_url" {
  value       = module.trigger.dead_letters.url
  description = "URL of the queue of messages that failed five times."
}

output "maintenance_failures_url" {
  value       = one(module.maintenance[*].failures.url)
  description = "URL of the queue of maintenance runs that failed or did not start; null without a schedule."
}

output "function_name" {
  value       = module.trigger.function.name
  description = "Name of the trigger's Lambda function."
}

output "application_id" {
  value       = module.spark.application.id
  description = "ID of the EMR Serverless application, for drain.sh."
}

output "role_arns" {
  value       = module.iam.role_arns
  description = "ARNs of the roles: trigger, job, maintenance, and scheduler if there is a schedule."
}

output "policies" {
  value       = module.iam.policies
  description = "Permissions of each role, as a JSON policy."
}

output "dashboard_name" {
  value       = module.observability.dashboard_name
  description = "Name of the CloudWatch dashboard."
}

output "alarm_names" {
  value       = module.observability.alarm_names
  description = "Names of the CloudWatch alarms."
}
