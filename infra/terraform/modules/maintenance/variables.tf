variable "name" {
  type        = string
  description = "Prefix of the names."
}

variable "partition" {
  type        = string
  description = "The partition of AWS."
}

variable "account_id" {
  type        = string
  description = "The account, of which events are believed."
}

variable "schedule" {
  type        = string
  description = "When, as EventBridge Scheduler says it, in UTC."
}

variable "application_id" {
  type        = string
  description = "The EMR Serverless application."
}

variable "entry_point" {
  type        = string
  description = "What a job runs."
}

variable "archives" {
  type        = list(string)
  description = "The Python environment of a job; none with an image."
}

variable "log_uri" {
  type        = string
  description = "Where jobs write their logs."
}

variable "configuration" {
  type        = string
  description = "The configuration, as JSON."
}

variable "workers" {
  type        = map(string)
  description = "Spark's properties that say how large and how many the job's workers are."
}

variable "key_arn" {
  type        = string
  description = "Key of the job's disks, and of the logs that EMR keeps; null for EMR's own."
  default     = null
}

variable "job_role_arn" {
  type        = string
  description = "The role that the job works in."
}

variable "scheduler_role_arn" {
  type        = string
  description = "The role that starts it."
}

variable "kms_key_arn" {
  type        = string
  description = "Key of the schedule and of the queue of failures; null for AWS' own."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything; schedules have none."
  default     = {}
}
