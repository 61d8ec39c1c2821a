variable "name" {
  type        = string
  description = "Name of this installation, and prefix of all resource names."
  default     = "icemirror"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "name must have 3 to 32 lower-case letters, digits and dashes, such as icemirror-shop."
  }
}

variable "changelogs" {
  type        = list(string)
  description = "S3 folders of the changelogs, s3://bucket/folder/. Jobs can read only these and the mirrors."

  validation {
    condition     = length(var.changelogs) > 0 && alltrue([for uri in var.changelogs : can(regex("^s3://[a-z0-9.-]{3,63}/[^*]+/$", uri))])
    error_message = "Write each changelog folder as s3://bucket/folder/, with a trailing slash. A whole bucket is not allowed."
  }

  validation {
    condition     = length(var.changelogs) == length(toset(var.changelogs))
    error_message = "changelogs contains a folder twice. Remove the duplicate."
  }

  validation {
    condition     = length(var.changelogs) <= 50
    error_message = "changelogs has more than 50 folders, which do not fit a role's policy. Use a common parent folder."
  }
}

variable "mirrors" {
  type        = string
  description = "S3 folder of the mirrors and their indexes, s3://bucket/folder/. It is the warehouse of the catalog."

  validation {
    condition     = can(regex("^s3://[a-z0-9.-]{3,63}/[^*]+/$", var.mirrors))
    error_message = "Write mirrors as s3://bucket/folder/, with a trailing slash. A whole bucket is not allowed."
  }

  validation {
    condition     = alltrue([for uri in var.changelogs : !startswith(uri, var.mirrors) && !startswith(var.mirrors, uri)])
    error_message = "mirrors and changelogs must not contain each other: jobs must not be able to write changelogs."
  }
}

variable "packages" {
  type = object({
    trigger_zip     = optional(string)
    trigger_runtime = optional(string, "python3.12")
    trigger_image   = optional(string)
    job_entry_point = optional(string)
    job_environment = optional(string)
    job_image       = optional(string)
  })
  description = "Code to deploy: paths of the three files of `make package`, or images by digest, built from the Dockerfile targets `function` and `job-emr`."

  validation {
    condition     = (var.packages.trigger_zip == null) != (var.packages.trigger_image == null)
    error_message = "Set either trigger_zip or trigger_image."
  }

  validation {
    condition     = (var.packages.job_environment == null) != (var.packages.job_image == null) && (var.packages.job_environment == null) == (var.packages.job_entry_point == null)
    error_message = "Set either job_entry_point and job_environment, or job_image."
  }

  validation {
    condition     = alltrue([for image in [var.packages.trigger_image, var.packages.job_image] : image == null ? true : can(regex("@sha256:[0-9a-f]{64}$", image))])
    error_message = "Write images with their digest, …@sha256:…: a tag can move to another image."
  }
}

variable "architecture" {
  type        = string
  description = "CPU architecture of the function and the jobs. Build the packages for it."
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "architecture must be x86_64 or arm64."
  }
}

variable "spark" {
  type = object({
    release_label    = optional(string, "emr-7.13.0")
    max_vcpu         = optional(number, 16)
    max_memory_gb    = optional(number, 64)
    max_disk_gb      = optional(number, 200)
    idle_minutes     = optional(number, 5)
    worker_vcpu      = optional(number, 2)
    worker_memory_gb = optional(number, 8)
    warm_drivers     = optional(number, 0)
    warm_executors   = optional(number, 0)
    encrypt_disks    = optional(bool, false)
  })
  description = "EMR Serverless application. max_vcpu, max_memory_gb, max_disk_gb: limits of the application, which cap the cost. idle_minutes: it stops after them. worker_vcpu, worker_memory_gb: size of each driver and executor. warm_drivers, warm_executors: number of workers that stay started. encrypt_disks: use kms_key_arn for the jobs' disks and the logs that EMR keeps."
  default     = {}

  validation {
    condition     = var.spark.max_vcpu >= 2 * var.spark.worker_vcpu && var.spark.max_memory_gb >= 2 * var.spark.worker_memory_gb && var.spark.max_disk_gb >= 40
    error_message = "The limits are too low for one driver and one executor. max_vcpu and max_memory_gb must be at least twice the worker's, max_disk_gb at least 40."
  }

  validation {
    condition = try(contains({
      1  = range(2, 9, 2)
      2  = range(4, 17, 2)
      4  = range(8, 31, 2)
      8  = range(16, 61, 4)
      16 = range(32, 121, 8)
    }[var.spark.worker_vcpu], var.spark.worker_memory_gb), false)
    error_message = "worker_vcpu and worker_memory_gb do not match an EMR Serverless worker size. Memory in GB by vCPU: 1: 2–8, 2: 4–16, 4: 8–30 (even numbers), 8: 16–60 (steps of 4), 16: 32–120 (steps of 8)."
  }

  validation {
    condition     = alltrue([for number in [var.spark.max_vcpu, var.spark.max_memory_gb, var.spark.max_disk_gb, var.spark.idle_minutes, var.spark.warm_drivers, var.spark.warm_executors] : floor(number) == number && number >= 0])
    error_message = "max_vcpu, max_memory_gb, max_disk_gb, idle_minutes, warm_drivers and warm_executors must be whole numbers."
  }

  validation {
    condition     = startswith(var.spark.release_label, "emr-")
    error_message = "release_label must be an EMR release label, such as emr-7.13.0."
  }

  validation {
    condition     = var.spark.idle_minutes >= 1 && var.spark.idle_minutes <= 10080
    error_message = "idle_minutes must be 1 to 10080."
  }

  validation {
    condition     = (var.spark.warm_drivers + var.spark.warm_executors) * var.spark.worker_vcpu <= var.spark.max_vcpu && (var.spark.warm_drivers + var.spark.warm_executors) * var.spark.worker_memory_gb <= var.spark.max_memory_gb
    error_message = "The warm workers exceed max_vcpu or max_memory_gb."
  }

  validation {
    condition     = !var.spark.encrypt_disks || var.kms_key_arn != null
    error_message = "encrypt_disks requires kms_key_arn."
  }
}

variable "network" {
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
  })
  description = "Private subnets and security groups of the jobs. Null: jobs run outside a VPC. A VPC needs endpoints for S3, Glue and DynamoDB, and for STS and CloudWatch Logs if it has no NAT gateway."
  default     = null

  validation {
    condition     = var.network == null ? true : length(var.network.subnet_ids) > 0 && length(var.network.security_group_ids) > 0
    error_message = "network needs at least one subnet and one security group."
  }
}

variable "kms_key_arn" {
  type        = string
  description = "KMS key for queue, state, code, logs and mirrors; null for AWS-owned keys. Its policy must allow CloudWatch Logs and EventBridge (docs/how-to/deploy-aws.md)."
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[^:]+:kms:[^:]+:[0-9]+:key/", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, arn:aws:kms:…:key/…. An alias does not work in a policy."
  }
}

variable "lake_key_arns" {
  type        = list(string)
  description = "KMS keys that encrypt the changelogs or the mirrors' bucket. Jobs and maintenance can use them."
  default     = []

  validation {
    condition     = alltrue([for arn in var.lake_key_arns : can(regex("^arn:[^:]+:kms:[^:]+:[0-9]+:key/", arn))])
    error_message = "lake_key_arns must be ARNs of keys, arn:aws:kms:…:key/…. An alias does not work in a policy."
  }
}

variable "events" {
  type = object({
    s3                       = optional(bool, true)
    own_bucket_notifications = optional(bool, false)
    glue                     = optional(bool, false)
    msk                      = optional(object({ cluster_arn = string, topics = list(string) }))
  })
  description = "Event sources: S3 and Glue through EventBridge, and topics of an MSK cluster. own_bucket_notifications: Terraform owns all notifications of the changelogs' buckets and replaces others; without it, enable EventBridge on the buckets yourself."
  default     = {}
}

variable "sweep_minutes" {
  type        = number
  description = "Minutes between sweeps. A sweep finds commits whose event was lost."
  default     = 5

  validation {
    condition     = var.sweep_minutes >= 1 && var.sweep_minutes <= 20 && floor(var.sweep_minutes) == var.sweep_minutes
    error_message = "sweep_minutes must be a whole number from 1 to 20: an alarm fires after 30 minutes without a sweep."
  }
}

variable "settings" {
  type        = any
  description = "Other settings of docs/reference/configuration.md, such as { merge_interval = \"30m\", job = { linger = \"0s\" } }. The module itself sets iceberg, tables, discover, trigger.state and trigger.launcher."
  default     = {}
  nullable    = false

  validation {
    condition     = length(setintersection(keys(var.settings), ["iceberg", "tables", "discover", "sentry"])) == 0 && length(setintersection(keys(try(var.settings.trigger, {})), ["state", "launcher", "sources"])) == 0
    error_message = "Remove iceberg, tables, discover, sentry, trigger.state, trigger.launcher and trigger.sources from settings: the module sets them or does not support them."
  }

  validation {
    condition     = try(var.settings.index_location, null) == null ? true : startswith("${trimsuffix(var.settings.index_location, "/")}/", var.mirrors)
    error_message = "index_location must be below `mirrors`. Jobs can write nowhere else."
  }

  validation {
    condition     = can(regex(local.duration.pattern, trimspace(coalesce(try(var.settings.trigger.max_wait, null), "30s"))))
    error_message = "trigger.max_wait must be ${local.duration.hint}."
  }

  validation {
    condition = try(
      tonumber(regex("^[0-9.]+", trimspace(var.settings.trigger.max_wait))) * local.seconds[try(regex("[a-z]+$", trimspace(var.settings.trigger.max_wait)), "s")] <= 870,
      true,
    )
    error_message = "trigger.max_wait must be at most 870s: the function runs that long, and Lambda ends it after 900 s."
  }
}

variable "alarms" {
  type = object({
    topic_arn    = optional(string)
    lag_seconds  = optional(number, 900)
    turn_seconds = optional(number, 3600)
    vcpu         = optional(number)
  })
  description = "SNS topic of the alarms and their thresholds: lag of a mirror, duration of one turn, vCPUs in use for three hours (default: three quarters of spark.max_vcpu)."
  default     = {}
}

variable "log_retention_days" {
  type        = number
  description = "Retention of the function's and the jobs' logs."
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731], var.log_retention_days)
    error_message = "log_retention_days must be 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545 or 731, as in CloudWatch."
  }
}

variable "maintenance_schedule" {
  type        = string
  description = "Schedule of `icemirror maintain` in UTC, as an EventBridge Scheduler expression; null for none."
  default     = "cron(17 3 * * ? *)"

  validation {
    condition     = var.maintenance_schedule == null ? true : can(regex("^(cron\\(\\S+( \\S+){5}\\)|rate\\([1-9][0-9]* (minute|hour|day)s?\\))$", var.maintenance_schedule))
    error_message = "Write maintenance_schedule as cron(minutes hours day-of-month month day-of-week year) or rate(1 day)."
  }

  validation {
    condition = !startswith(coalesce(var.maintenance_schedule, "-"), "cron(") || try(alltrue([
      for at, most in [59, 23] : alltrue([for number in regexall("[0-9]+", split(" ", trimprefix(var.maintenance_schedule, "cron("))[at]) : tonumber(number) <= most])
    ]) && (split(" ", var.maintenance_schedule)[2] == "?") != (split(" ", var.maintenance_schedule)[4] == "?"), true)
    error_message = "maintenance_schedule: minutes must be 0 to 59, hours 0 to 23, and exactly one of day-of-month and day-of-week ?."
  }
}

variable "maintenance_principals" {
  type        = list(string)
  description = "ARNs of the principals that can assume the maintenance role, the only role that can delete files. Empty: every principal of the account whose IAM policy allows sts:AssumeRole."
  default     = []
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
