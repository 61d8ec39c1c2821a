variable "name" {
  type        = string
  description = "Name of this installation: prefix of everything that is made."
  default     = "icemirror"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "Small letters, digits and dashes, 3 to 32 of them, such as icemirror-shop."
  }
}

variable "changelogs" {
  type        = list(string)
  description = "Folders in S3 that the changelogs lie in, s3://bucket/folder/. Jobs may read them, and nothing else but the mirrors."

  validation {
    condition     = length(var.changelogs) > 0 && alltrue([for uri in var.changelogs : can(regex("^s3://[a-z0-9.-]{3,63}/[^*]+/$", uri))])
    error_message = "Each is s3://bucket/folder/, with a slash at its end; a whole bucket is too much."
  }

  validation {
    condition     = length(var.changelogs) == length(toset(var.changelogs))
    error_message = "A folder is named twice."
  }

  validation {
    condition     = length(var.changelogs) <= 50
    error_message = "50 folders at most, more do not fit a role's policy: name a folder that they lie in."
  }
}

variable "mirrors" {
  type        = string
  description = "Folder in S3 that the mirrors and their indexes are made in, s3://bucket/folder/: the warehouse of the catalog."

  validation {
    condition     = can(regex("^s3://[a-z0-9.-]{3,63}/[^*]+/$", var.mirrors))
    error_message = "It is s3://bucket/folder/, with a slash at its end; a whole bucket is too much."
  }

  validation {
    condition     = alltrue([for uri in var.changelogs : !startswith(uri, var.mirrors) && !startswith(var.mirrors, uri)])
    error_message = "Changelogs and mirrors need folders of their own: jobs must not be able to write changelogs."
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
  description = "What `make package` made: paths of the function's zip, of icemirror_job.py and of the packed environment. Or images by digest, of the Dockerfile's targets `function` and `job-emr`."

  validation {
    condition     = (var.packages.trigger_zip == null) != (var.packages.trigger_image == null)
    error_message = "Give either trigger_zip or trigger_image."
  }

  validation {
    condition     = (var.packages.job_environment == null) != (var.packages.job_image == null) && (var.packages.job_environment == null) == (var.packages.job_entry_point == null)
    error_message = "Give either job_entry_point with job_environment, or job_image."
  }

  validation {
    condition     = alltrue([for image in [var.packages.trigger_image, var.packages.job_image] : image == null ? true : can(regex("@sha256:[0-9a-f]{64}$", image))])
    error_message = "An image is named by its digest, …@sha256:…, so that what runs is what was tested."
  }
}

variable "architecture" {
  type        = string
  description = "Processors of the function and the jobs; the packages must be built for them."
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "It is x86_64 or arm64."
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
  description = "The EMR Serverless application: its release, the most that it may hold at once, when it stops, how large drivers and executors are, how many of them wait for jobs, and whether jobs' disks, and the logs that EMR keeps of them, are encrypted with kms_key_arn instead of EMR's own key."
  default     = {}

  validation {
    condition     = var.spark.max_vcpu >= 2 * var.spark.worker_vcpu && var.spark.max_memory_gb >= 2 * var.spark.worker_memory_gb && var.spark.max_disk_gb >= 40
    error_message = "A driver and an executor need twice worker_vcpu and worker_memory_gb, and 40 GB of disk."
  }

  validation {
    condition = try(contains({
      1  = range(2, 9, 2)
      2  = range(4, 17, 2)
      4  = range(8, 31, 2)
      8  = range(16, 61, 4)
      16 = range(32, 121, 8)
    }[var.spark.worker_vcpu], var.spark.worker_memory_gb), false)
    error_message = "EMR Serverless has workers of 1 vCPU with 2 to 8 GB, 2 with 4 to 16, 4 with 8 to 30, 8 with 16 to 60 (in steps of 4), 16 with 32 to 120 (of 8); worker_memory_gb is even."
  }

  validation {
    condition     = alltrue([for number in [var.spark.max_vcpu, var.spark.max_memory_gb, var.spark.max_disk_gb, var.spark.idle_minutes, var.spark.warm_drivers, var.spark.warm_executors] : floor(number) == number && number >= 0])
    error_message = "max_vcpu, max_memory_gb, max_disk_gb, idle_minutes, warm_drivers and warm_executors are whole numbers."
  }

  validation {
    condition     = startswith(var.spark.release_label, "emr-")
    error_message = "release_label is as EMR says it, such as emr-7.13.0."
  }

  validation {
    condition     = var.spark.idle_minutes >= 1 && var.spark.idle_minutes <= 10080
    error_message = "idle_minutes is 1 to 10080."
  }

  validation {
    condition     = (var.spark.warm_drivers + var.spark.warm_executors) * var.spark.worker_vcpu <= var.spark.max_vcpu && (var.spark.warm_drivers + var.spark.warm_executors) * var.spark.worker_memory_gb <= var.spark.max_memory_gb
    error_message = "The workers that wait need more than max_vcpu or max_memory_gb."
  }

  validation {
    condition     = !var.spark.encrypt_disks || var.kms_key_arn != null
    error_message = "encrypt_disks needs kms_key_arn."
  }
}

variable "network" {
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
  })
  description = "Private subnets and security groups of the jobs; null: outside of any VPC, which reaches S3, Glue and DynamoDB."
  default     = null

  validation {
    condition     = var.network == null ? true : length(var.network.subnet_ids) > 0 && length(var.network.security_group_ids) > 0
    error_message = "Name at least one subnet and one security group."
  }
}

variable "kms_key_arn" {
  type        = string
  description = "Key for queue, state, code, logs and mirrors; null: the services' own keys. Its policy must let CloudWatch Logs and EventBridge use it (docs/deploy-aws.md)."
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[^:]+:kms:[^:]+:[0-9]+:key/", var.kms_key_arn))
    error_message = "It is the ARN of a key, arn:aws:kms:…:key/…; an alias cannot be named in a policy."
  }
}

variable "lake_key_arns" {
  type        = list(string)
  description = "Keys that the lake's own objects are encrypted with: changelogs, or the mirrors' bucket. Jobs and maintenance may use them."
  default     = []

  validation {
    condition     = alltrue([for arn in var.lake_key_arns : can(regex("^arn:[^:]+:kms:[^:]+:[0-9]+:key/", arn))])
    error_message = "Each is the ARN of a key, arn:aws:kms:…:key/…; an alias cannot be named in a policy."
  }
}

variable "events" {
  type = object({
    s3                       = optional(bool, true)
    own_bucket_notifications = optional(bool, false)
    glue                     = optional(bool, false)
    msk                      = optional(object({ cluster_arn = string, topics = list(string) }))
  })
  description = "How commits are heard of: S3 and Glue through EventBridge, topics of an MSK cluster. own_bucket_notifications replaces all other notifications of the changelogs' buckets; without it, switch EventBridge on yourself."
  default     = {}
}

variable "sweep_minutes" {
  type        = number
  description = "How often all changelogs are looked at, for what no event told of."
  default     = 5

  validation {
    condition     = var.sweep_minutes >= 1 && var.sweep_minutes <= 20 && floor(var.sweep_minutes) == var.sweep_minutes
    error_message = "Whole minutes, 1 to 20: an alarm goes off after half an hour without a look."
  }
}

variable "settings" {
  type        = any
  description = "Anything else of docs/configuration.md, such as { merge_interval = \"30m\", job = { linger = \"0s\" } }. Not iceberg, tables, discover, trigger.state, trigger.launcher: these are this module's."
  default     = {}
  nullable    = false

  validation {
    condition     = length(setintersection(keys(var.settings), ["iceberg", "tables", "discover", "sentry"])) == 0 && length(setintersection(keys(try(var.settings.trigger, {})), ["state", "launcher", "sources"])) == 0
    error_message = "iceberg, tables, discover, sentry, trigger.state, trigger.launcher and trigger.sources are not to be given here."
  }

  validation {
    condition     = try(var.settings.index_location, null) == null ? true : startswith("${trimsuffix(var.settings.index_location, "/")}/", var.mirrors)
    error_message = "index_location is below `mirrors`: nowhere else may jobs write."
  }

  validation {
    condition     = can(regex(local.time.is, trimspace(coalesce(try(var.settings.trigger.max_wait, null), "30s"))))
    error_message = "trigger.max_wait is ${local.time.such_as}."
  }

  validation {
    condition = try(
      tonumber(regex("^[0-9.]+", trimspace(var.settings.trigger.max_wait))) * local.seconds[try(regex("[a-z]+$", trimspace(var.settings.trigger.max_wait)), "s")] <= 870,
      true,
    )
    error_message = "trigger.max_wait is 870s at most: the function stays for it, and Lambda ends functions after 900 s."
  }
}

variable "alarms" {
  type = object({
    topic_arn    = optional(string)
    lag_seconds  = optional(number, 900)
    turn_seconds = optional(number, 3600)
    vcpu         = optional(number)
  })
  description = "SNS topic of the alarms, the lag and the time of a job for one table that are too much, and the vCPUs that are too many for three hours (default: three quarters of spark.max_vcpu)."
  default     = {}
}

variable "log_retention_days" {
  type        = number
  description = "How long logs are kept."
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545 or 731 days."
  }
}

variable "maintenance_schedule" {
  type        = string
  description = "When `icemirror maintain` runs, as EventBridge Scheduler says it, in UTC; null: never by itself."
  default     = "cron(17 3 * * ? *)"

  validation {
    condition     = var.maintenance_schedule == null ? true : can(regex("^(cron\\(\\S+( \\S+){5}\\)|rate\\([1-9][0-9]* (minute|hour|day)s?\\))$", var.maintenance_schedule))
    error_message = "It is cron(minutes hours day-of-month month day-of-week year) or rate(1 day), in hours, minutes or days."
  }

  validation {
    condition = !startswith(coalesce(var.maintenance_schedule, "-"), "cron(") || try(alltrue([
      for at, most in [59, 23] : alltrue([for number in regexall("[0-9]+", split(" ", trimprefix(var.maintenance_schedule, "cron("))[at]) : tonumber(number) <= most])
    ]) && (split(" ", var.maintenance_schedule)[2] == "?") != (split(" ", var.maintenance_schedule)[4] == "?"), true)
    error_message = "Minutes are 0 to 59, hours 0 to 23, and one of day-of-month and day-of-week is ?."
  }
}

variable "maintenance_principals" {
  type        = list(string)
  description = "ARNs of those who may take the maintenance role, which alone may delete files; none: whoever the account's own policies allow to."
  default     = []
}

variable "permissions_boundary_arn" {
  type        = string
  description = "Policy that bounds the permissions of all roles, where the account demands one; null for none."
  default     = null
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything."
  default     = {}
}
