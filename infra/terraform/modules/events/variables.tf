variable "name" {
  type        = string
  description = "Prefix of the rules' names."
}

variable "account_id" {
  type        = string
  description = "The account whose events are taken."
}

variable "queue_arn" {
  type        = string
  description = "The queue that events are sent to."
}

variable "function_arn" {
  type        = string
  description = "The function that reads the topics of a cluster."
}

variable "application_id" {
  type        = string
  description = "The EMR Serverless application, whose runs' ends are told."
}

variable "changelogs" {
  type        = list(object({ bucket = string, prefix = string }))
  description = "Folders of the changelogs."
}

variable "databases" {
  type        = list(string)
  description = "Glue databases of the changelogs."
}

variable "s3" {
  type        = bool
  description = "Hear of commits from S3, through EventBridge."
}

variable "own_bucket_notifications" {
  type        = bool
  description = "Switch EventBridge on for the changelogs' buckets, whose names must be known. It replaces every other notification of these buckets."
}

variable "glue" {
  type        = bool
  description = "Hear of commits from Glue, through EventBridge."
}

variable "msk" {
  type        = object({ cluster_arn = string, topics = list(string), consumer_group = string })
  description = "Topics of an MSK cluster with events of a catalog; null for none."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
