variable "name" {
  type        = string
  description = "Prefix of the roles' names."
}

variable "account" {
  type = object({
    id        = string
    partition = string
    region    = string
  })
  description = "Account ID, partition and region."
}

variable "changelogs" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "S3 folders of the changelogs, which jobs read."
}

variable "mirrors" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "S3 folders of the mirrors and their indexes, which jobs read and write."
}

variable "changelog_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Changelogs in Glue; use table = \"*\" for all tables of a discovered database."
}

variable "mirror_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Mirrors in Glue; use table = \"*\" for all tables of a discovered database."

  validation {
    condition     = length(setintersection(var.changelog_tables, [for one in var.mirror_tables : one if one.table != "*"])) == 0
    error_message = "A table is both mirror and changelog. Use different tables: jobs must not be able to write changelogs."
  }

  validation {
    condition     = length(setintersection([for one in var.changelog_tables : one.database], [for one in var.mirror_tables : one.database if one.table == "*"])) == 0
    error_message = "mirror_namespace contains changelogs. Use a database without changelogs: jobs can write all tables of it."
  }
}

variable "rejects_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Rejects tables in Glue."
  default     = []

  validation {
    condition     = length(setintersection(var.rejects_tables, concat(var.changelog_tables, var.mirror_tables))) == 0 && length(distinct(var.rejects_tables)) == length(var.rejects_tables)
    error_message = "A rejects_table is a changelog, a mirror, or the rejects table of another mirror. Choose another name."
  }
}

variable "queue_arn" {
  type        = string
  description = "ARN of the event queue."
}

variable "state_table_arn" {
  type        = string
  description = "ARN of the DynamoDB table with the state."
}

variable "application_arn" {
  type        = string
  description = "ARN of the EMR Serverless application."
}

variable "code_arns" {
  type        = list(string)
  description = "ARNs of the S3 objects with the jobs' code; empty with an image."
}

variable "logs" {
  type        = object({ bucket = string, prefix = string })
  description = "S3 folder of the jobs' logs."
}

variable "log_group_arn" {
  type        = string
  description = "ARN of the function's log group."
}

variable "secret_arns" {
  type        = list(string)
  description = "ARNs of the secrets that jobs read."
  default     = []
}

variable "kms_key_arn" {
  type        = string
  description = "ARN of the KMS key for queue, state, code, logs and mirrors; null for AWS-owned keys."
  default     = null
}

variable "job_key_arn" {
  type        = string
  description = "ARN of the KMS key for the jobs' disks and the logs that EMR keeps; null for EMR's key."
  default     = null
}

variable "lake_key_arns" {
  type        = list(string)
  description = "ARNs of the KMS keys that encrypt changelogs or mirrors."
  default     = []
}

variable "msk" {
  type        = object({ cluster_arn = string, topics = list(string), consumer_group = string })
  description = "MSK cluster, topics and consumer group of the function; null for none."
  default     = null
}

variable "maintenance_principals" {
  type        = list(string)
  description = "ARNs of the principals that can assume the maintenance role; empty to let the account's IAM policies decide."
  default     = []
}

variable "maintenance_job" {
  type        = bool
  description = "Whether `icemirror maintain` runs as a scheduled job, which adds the scheduler's role."
  default     = false
}

variable "permissions_boundary_arn" {
  type        = string
  description = "ARN of the permissions boundary of all roles; null for none."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources."
  default     = {}
}
