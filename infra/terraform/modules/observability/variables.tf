variable "name" {
  type        = string
  description = "Prefix of the resource names."
}

variable "function_name" {
  type        = string
  description = "Name of the trigger's Lambda function."
}

variable "sweep_minutes" {
  type        = number
  description = "Minutes between sweeps."
}

variable "region" {
  type        = string
  description = "Region of the dashboard's metrics."
}

variable "application_id" {
  type        = string
  description = "ID of the EMR Serverless application."
}

variable "queue_names" {
  type        = object({ events = string, dead_letters = string, failed_maintenance = optional(string) })
  description = "Names of the queues of events, dead letters and maintenance failures; the last is null without a schedule."
}

variable "log_retention_days" {
  type        = number
  description = "Retention of the function's logs."
}

variable "alarms" {
  type        = object({ topic_arn = optional(string), lag_seconds = number, turn_seconds = number, vcpu = number })
  description = "SNS topic of the alarms (null: shown only in CloudWatch) and their thresholds: lag, duration of one turn, vCPUs in use for three hours."
}

variable "kms_key_arn" {
  type        = string
  description = "ARN of the KMS key for the logs; null for CloudWatch's key."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources."
  default     = {}
}
