variable "name" {
  type        = string
  description = "Prefix of the rules' names."
}

variable "account_id" {
  type        = string
  description = "ID of the account whose events are accepted."
}

variable "queue_arn" {
  type        = string
  description = "ARN of the event queue."
}

variable "function_arn" {
  type        = string
  description = "ARN of the function that reads the MSK topics."
}

variable "application_id" {
  type        = string
  description = "ID of the EMR Serverless application whose ended runs are reported."
}

variable "changelogs" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "S3 folders of the changelogs."
}

variable "databases" {
  type        = list(string)
  description = "Glue databases of the changelogs."
}

variable "s3" {
  type        = bool
  description = "Whether to receive commits from S3 through EventBridge."
}

variable "own_bucket_notifications" {
  type        = bool
  description = "Whether to enable EventBridge on the changelogs' buckets, whose names must be known. This replaces all other notifications of these buckets."
}

variable "glue" {
  type        = bool
  description = "Whether to receive commits from Glue through EventBridge."
}

variable "msk" {
  type        = object({ cluster_arn = string, topics = list(string), consumer_group = string })
  description = "MSK cluster and topics with catalog events; null for none."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources."
  default     = {}
}
