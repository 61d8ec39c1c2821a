variable "name" {
  type        = string
  description = "Prefix of the resource names."
}

variable "partition" {
  type        = string
  description = "AWS partition."
}

variable "account_id" {
  type        = string
  description = "ID of the account whose events are accepted."
}

variable "schedule" {
  type        = string
  description = "EventBridge Scheduler expression, in UTC."
}

variable "application_id" {
  type        = string
  description = "ID of the EMR Serverless application."
}

variable "entry_point" {
  type        = string
  description = "URI of the jobs' entry point."
}

variable "archives" {
  type        = list(string)
  description = "URIs of the jobs' Python environment; empty with an image."
}

variable "log_uri" {
  type        = string
  description = "S3 URI of the jobs' logs."
}

variable "configuration" {
  type        = string
  description = "Configuration of icemirror, as JSON."
}

variable "workers" {
  type        = map(string)
  description = "Spark properties for size and number of the job's workers."
}

variable "key_arn" {
  type        = string
  description = "ARN of the KMS key for the job's disks and the logs that EMR keeps; null for EMR's key."
  default     = null
}

variable "job_role_arn" {
  type        = string
  description = "ARN of the role of the job."
}

variable "scheduler_role_arn" {
  type        = string
  description = "ARN of the role that starts the job."
}

variable "kms_key_arn" {
  type        = string
  description = "ARN of the KMS key for the schedule and the queue of failures; null for AWS-owned keys."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources; schedules have none."
  default     = {}
}
