output "configuration" {
  value       = local.configuration
  description = "The configuration of trigger and jobs: `terraform output -json | icemirror config from-terraform > icemirror.yaml`."
}

output "queue_url" {
  value       = module.trigger.queue.url
  description = "The queue of events, for senders of your own."
}

output "dead_letters_url" {
  value       = module.trigger.dead_letters.url
  description = "The queue of messages that failed too often."
}

output "maintenance_failures_url" {
  value       = one(module.maintenance[*].failures.url)
  description = "The queue of nightly runs that failed or could not be started; null where none run."
}

output "function_name" {
  value       = module.trigger.function.name
  description = "The trigger's function."
}

output "application_id" {
  value       = module.spark.application.id
  description = "The EMR Serverless application, for drain.sh."
}

output "role_arns" {
  value       = module.iam.role_arns
  description = "Roles of the trigger, the jobs, and of maintenance."
}

output "policies" {
  value       = module.iam.policies
  description = "What each of these roles may do, as JSON."
}

output "dashboard_name" {
  value       = module.observability.dashboard_name
  description = "The dashboard in CloudWatch."
}

output "alarm_names" {
  value       = module.observability.alarm_names
  description = "The alarms in CloudWatch."
}
