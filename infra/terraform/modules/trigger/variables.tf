variable "name" {
  type        = string
  description = "Name of the function and the state table, and prefix of the queues' names."
}

variable "account" {
  type = object({
    id        = string
    partition = string
    region    = string
  })
  description = "Account ID, partition and region."
}

variable "rule_arns" {
  type        = list(string)
  description = "ARNs of the EventBridge rules that can send to the queue."
}

variable "package" {
  type        = object({ zip = optional(string), image = optional(string), runtime = string })
  description = "Code of the function: a zip and its Python runtime, or an image by digest."
}

variable "architecture" {
  type        = string
  description = "CPU architecture: x86_64 or arm64."

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "architecture must be x86_64 or arm64."
  }
}

variable "configuration" {
  type        = string
  description = "Configuration of icemirror, as YAML or JSON. It is compressed into the function's environment."
}

variable "role_arn" {
  type        = string
  description = "ARN of the function's role."
}

variable "log_group_name" {
  type        = string
  description = "Name of the function's log group."
}

variable "timeout_seconds" {
  type        = number
  description = "Timeout of the function, at least 10 s longer than trigger.max_wait."
}

variable "sweep_minutes" {
  type        = number
  description = "Minutes between sweeps."
}

variable "kms_key_arn" {
  type        = string
  description = "ARN of the KMS key for queues, state and environment; null for AWS-owned keys."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources."
  default     = {}
}
