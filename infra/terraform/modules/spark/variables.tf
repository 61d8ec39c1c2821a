variable "name" {
  type        = string
  description = "Name of the application, and prefix of the bucket's name."
}

variable "account_id" {
  type        = string
  description = "The account; part of the bucket's name, which is one in the world."
}

variable "release_label" {
  type        = string
  description = "Release of EMR Serverless."
}

variable "architecture" {
  type        = string
  description = "Processors: x86_64 or arm64."

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "It is x86_64 or arm64."
  }
}

variable "maximum" {
  type        = object({ vcpu = number, memory_gb = number, disk_gb = number })
  description = "Most that the application may hold at once: the cap of what it costs."
}

variable "idle_minutes" {
  type        = number
  description = "The application stops after so long without a job."
}

variable "warm" {
  type        = object({ drivers = number, executors = number, vcpu = number, memory_gb = number })
  description = "Workers that wait for jobs while the application is started, and their size. They cost while they wait."
}

variable "image_uri" {
  type        = string
  description = "Image of the jobs, by digest; null for the release's own with `environment`."
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
  description = "Private subnets and security groups of the workers; null for none."
  default     = null
}

variable "kms_key_arn" {
  type        = string
  description = "Key of the bucket of code and logs; null for S3's own."
  default     = null
}

variable "log_retention_days" {
  type        = number
  description = "Logs of jobs are removed after so many days."
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
