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
  description = "Where all of it is."
}

variable "changelogs" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "Folders of the changelogs, which jobs read."
}

variable "mirrors" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "Folders of the mirrors and their indexes, which jobs read and write."
}

variable "changelog_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Changelogs in Glue; * for all tables of a database in which they are discovered."
}

variable "mirror_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Mirrors in Glue; * for all tables of a database, where changelogs are discovered."

  validation {
    condition     = length(setintersection(var.changelog_tables, [for one in var.mirror_tables : one if one.table != "*"])) == 0
    error_message = "A mirror is a changelog: jobs must not be able to write changelogs."
  }

  validation {
    condition     = length(setintersection([for one in var.changelog_tables : one.database], [for one in var.mirror_tables : one.database if one.table == "*"])) == 0
    error_message = "Mirrors of discovered changelogs need a database without changelogs: jobs may write all tables of it."
  }
}

variable "rejects_tables" {
  type        = list(object({ database = string, table = string }))
  description = "Tables in Glue that bad rows are put aside to, of the mirrors that do so."
  default     = []

  validation {
    condition     = length(setintersection(var.rejects_tables, concat(var.changelog_tables, var.mirror_tables))) == 0 && length(distinct(var.rejects_tables)) == length(var.rejects_tables)
    error_message = "Bad rows of each mirror go into a table of their own, which is no changelog, no mirror and no other mirror's: name another rejects_table."
  }
}

variable "queue_arn" {
  type        = string
  description = "The queue of events."
}

variable "state_table_arn" {
  type        = string
  description = "The DynamoDB table of the state."
}

variable "application_arn" {
  type        = string
  description = "The EMR Serverless application."
}

variable "code_arns" {
  type        = list(string)
  description = "Objects that a job is made of: entry point and archive; none with an image."
}

variable "logs" {
  type        = object({ bucket = string, prefix = string })
  description = "Folder of the jobs' logs."
}

variable "log_group_arn" {
  type        = string
  description = "Log group of the function."
}

variable "secret_arns" {
  type        = list(string)
  description = "Secrets that jobs look up."
  default     = []
}

variable "kms_key_arn" {
  type        = string
  description = "The key that everything is encrypted with; null for the services' own keys."
  default     = null
}

variable "job_key_arn" {
  type        = string
  description = "The key that jobs' disks and logs at EMR are encrypted with; null for EMR's own."
  default     = null
}

variable "lake_key_arns" {
  type        = list(string)
  description = "Keys that objects of the lake are encrypted with."
  default     = []
}

variable "msk" {
  type        = object({ cluster_arn = string, topics = list(string), consumer_group = string })
  description = "The cluster and topics that the function reads; null for none."
  default     = null
}

variable "maintenance_principals" {
  type        = list(string)
  description = "ARNs of the roles and users who may run `icemirror maintain` in the maintenance role."
  default     = []
}

variable "maintenance_job" {
  type        = bool
  description = "Is `icemirror maintain` run by the clock? Then its role is a job's as well, and a scheduler may start that."
  default     = false
}

variable "permissions_boundary_arn" {
  type        = string
  description = "Boundary of the roles' permissions; null for none."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
