variable "name" {
  type        = string
  description = "Name of the function, the queue and the table."
}

variable "account" {
  type = object({
    id        = string
    partition = string
    region    = string
  })
  description = "Where all of it is."
}

variable "sender_arns" {
  type        = list(string)
  description = "Rules of EventBridge that may send to the queue."
}

variable "package" {
  type        = object({ zip = optional(string), image = optional(string), runtime = string })
  description = "The function's code: the path of a zip with its Python, or an image by digest."
}

variable "architecture" {
  type        = string
  description = "Processors: x86_64 or arm64."

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "It is x86_64 or arm64."
  }
}

variable "configuration" {
  type        = string
  description = "The whole configuration, as YAML or JSON. It is given to the function in its environment, packed."
}

variable "role_arn" {
  type        = string
  description = "The function's role."
}

variable "log_group_name" {
  type        = string
  description = "Where the function writes its logs."
}

variable "timeout_seconds" {
  type        = number
  description = "The function's time-out: longer than trigger.max_wait by 10 s or more."
}

variable "sweep_minutes" {
  type        = number
  description = "How often all heads are looked at."
}

variable "kms_key_arn" {
  type        = string
  description = "Key of queue, table and environment; null for the services' own."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
