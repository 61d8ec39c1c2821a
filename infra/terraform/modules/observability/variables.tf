variable "name" {
  type        = string
  description = "Prefix of the names."
}

variable "function_name" {
  type        = string
  description = "The trigger's function."
}

variable "sweep_minutes" {
  type        = number
  description = "How often a sweep tells how all tables stand."
}

variable "region" {
  type        = string
  description = "Region of the dashboard's metrics."
}

variable "application_id" {
  type        = string
  description = "The EMR Serverless application."
}

variable "queue_names" {
  type        = object({ events = string, dead_letters = string, failed_maintenance = optional(string) })
  description = "The queue of events, that of its dead letters, and that of failures of maintenance; null where no clock runs it."
}

variable "log_retention_days" {
  type        = number
  description = "How long the function's logs are kept."
}

variable "alarms" {
  type        = object({ topic_arn = optional(string), lag_seconds = number, turn_seconds = number, vcpu = number })
  description = "Where alarms go (null: nowhere, they are only shown), the lag and the time for one table that are too much, and the vCPUs that are too many for three hours."
}

variable "kms_key_arn" {
  type        = string
  description = "Key of the logs; null for CloudWatch's own."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
