variable "name" {
  type        = string
  description = "Name of the application and prefix of the bucket's name."
}

variable "account_id" {
  type        = string
  description = "ID of the account, which makes the bucket's name unique."
}

variable "release_label" {
  type        = string
  description = "EMR release label."
}

variable "architecture" {
  type        = string
  description = "CPU architecture: x86_64 or arm64."

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "architecture must be x86_64 or arm64."
  }
}

variable "maximum" {
  type        = object({ vcpu = number, memory_gb = number, disk_gb = number })
  description = "Capacity limit of the application, which caps its cost."
}

variable "idle_minutes" {
  type        = number
  description = "Minutes without a job before the application stops."
}

variable "warm" {
  type        = object({ drivers = number, executors = number, vcpu = number, memory_gb = number })
  description = "Number and size of pre-started workers. They cost while they wait."
}

variable "image_uri" {
  type        = string
  description = "Image of the jobs, by digest; null for the release's image with `environment`."
  default     = null
}

variable "entry_point" {
  type        = string
  description = "Local path of icemirror_job.py; null with an image."
  default     = null
}

variable "environment" {
  type        = string
  description = "Local path of the packed Python environment; null with an image."
  default     = null
}

variable "network" {
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  description = "Private subnets and security groups of the workers; null for no VPC."
  default     = null
}

variable "kms_key_arn" {
  type        = string
  description = "ARN of the KMS key for the bucket; null for S3's key."
  default     = null
}

variable "log_retention_days" {
  type        = number
  description = "Days before job logs are deleted."
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources."
  default     = {}
}
