# One installation in one account and region: a function that receives commit events, an EMR Serverless application that
# merges, with their queue, state table, roles and alarms.
data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account = {
    id        = data.aws_caller_identity.current.account_id
    partition = data.aws_partition.current.partition
    region    = data.aws_region.current.name
  }

  changelogs = [for uri in var.changelogs : regex("^s3://(?P<bucket>[^/]+)/(?P<prefix>.*)$", uri)]
  mirrors    = [regex("^s3://(?P<bucket>[^/]+)/(?P<prefix>.*)$", var.mirrors)]

  changelog_tables = concat(
    [for table in var.tables : zipmap(["database", "table"], split(".", table.changelog))],
    [for one in var.discover : { database = one.namespace, table = "*" }],
  )
  mirror_tables = concat(
    [for table in var.tables : zipmap(["database", "table"], split(".", table.mirror))],
    [for one in var.discover : { database = one.mirror_namespace, table = "*" }],
  )
  # Rejects tables of the mirrors with on_bad_row = "quarantine". Those of discovered tables are in the databases above.
  rejects_tables = [
    for table in [for one in var.tables : { mirror = one.mirror, rejects = try(one.rejects_table, null) } if try(one.on_bad_row, null) == "quarantine"] :
    zipmap(["database", "table"], (
      table.rejects == null ? split(".", "${table.mirror}_rejects") :
      strcontains(table.rejects, ".") ? split(".", table.rejects) :
      [split(".", table.mirror)[0], table.rejects]
    ))
  ]

  msk = one([for msk in var.events.msk[*] : { cluster_arn = msk.cluster_arn, topics = msk.topics, consumer_group = var.name }])

  # Each job run requests this key for its disks and for the logs that EMR keeps. The application cannot: the provider
  # has no block for disk encryption.
  job_key_arn = var.spark.encrypt_disks ? var.kms_key_arn : null

  # The function waits up to trigger.max_wait for more commits. A number without a unit is in seconds.
  seconds          = { ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 }
  max_wait         = trimspace(coalesce(try(var.settings.trigger.max_wait, null), "30s"))
  max_wait_seconds = ceil(tonumber(regex("^[0-9.]+", local.max_wait)) * local.seconds[try(regex("[a-z]+$", local.max_wait), "s")])
}

module "iam" {
  source = "./modules/iam"

  name                   = var.name
  account                = local.account
  changelogs             = local.changelogs
  mirrors                = local.mirrors
  changelog_tables       = local.changelog_tables
  mirror_tables          = local.mirror_tables
  rejects_tables         = local.rejects_tables
  queue_arn              = module.trigger.queue.arn
  state_table_arn        = module.trigger.state_table.arn
  application_arn        = module.spark.application.arn
  code_arns              = module.spark.code_arns
  logs                   = module.spark.logs
  log_group_arn          = module.observability.log_group.arn
  kms_key_arn            = var.kms_key_arn
  job_key_arn            = local.job_key_arn
  lake_key_arns          = var.lake_key_arns
  msk                    = local.msk
  maintenance_principals = var.maintenance_principals
  maintenance_job        = var.maintenance_schedule != null

  permissions_boundary_arn = var.permissions_boundary_arn
  tags                     = var.tags
}

module "spark" {
  source = "./modules/spark"

  name               = var.name
  account_id         = local.account.id
  release_label      = var.spark.release_label
  architecture       = var.architecture
  maximum            = { vcpu = var.spark.max_vcpu, memory_gb = var.spark.max_memory_gb, disk_gb = var.spark.max_disk_gb }
  idle_minutes       = var.spark.idle_minutes
  warm               = { drivers = var.spark.warm_drivers, executors = var.spark.warm_executors, vcpu = var.spark.worker_vcpu, memory_gb = var.spark.worker_memory_gb }
  image_uri          = var.packages.job_image
  entry_point        = var.packages.job_entry_point
  environment        = var.packages.job_environment
  network            = var.network
  kms_key_arn        = var.kms_key_arn
  log_retention_days = var.log_retention_days
  tags               = var.tags
}

module "maintenance" {
  source = "./modules/maintenance"
  count  = var.maintenance_schedule == null ? 0 : 1

  name               = var.name
  partition          = local.account.partition
  account_id         = local.account.id
  schedule           = var.maintenance_schedule
  application_id     = module.spark.application.id
  entry_point        = module.spark.entry_point
  archives           = module.spark.archives
  log_uri            = module.spark.logs.uri
  configuration      = jsonencode(local.configuration)
  workers            = local.workers
  key_arn            = local.job_key_arn
  job_role_arn       = module.iam.role_arns.maintenance
  scheduler_role_arn = module.iam.role_arns.scheduler
  kms_key_arn        = var.kms_key_arn
  tags               = var.tags
}

module "trigger" {
  source = "./modules/trigger"

  name            = var.name
  account         = local.account
  rule_arns       = values(module.events.rules)
  package         = { zip = var.packages.trigger_zip, image = var.packages.trigger_image, runtime = var.packages.trigger_runtime }
  architecture    = var.architecture
  configuration   = jsonencode(local.configuration)
  role_arn        = module.iam.role_arns.trigger
  log_group_name  = module.observability.log_group.name
  timeout_seconds = max(60, local.max_wait_seconds + 30)
  sweep_minutes   = var.sweep_minutes
  kms_key_arn     = var.kms_key_arn
  tags            = var.tags
}

module "events" {
  source = "./modules/events"

  name                     = var.name
  account_id               = local.account.id
  queue_arn                = module.trigger.queue.arn
  function_arn             = module.trigger.function.arn
  application_id           = module.spark.application.id
  changelogs               = local.changelogs
  databases                = distinct([for one in local.changelog_tables : one.database])
  s3                       = var.events.s3
  own_bucket_notifications = var.events.own_bucket_notifications
  glue                     = var.events.glue
  msk                      = local.msk
  tags                     = var.tags
}

module "observability" {
  source = "./modules/observability"

  name               = var.name
  function_name      = module.trigger.function.name
  region             = local.account.region
  application_id     = module.spark.application.id
  sweep_minutes      = var.sweep_minutes
  queue_names        = { events = module.trigger.queue.name, dead_letters = module.trigger.dead_letters.name, failed_maintenance = one(module.maintenance[*].failures.name) }
  log_retention_days = var.log_retention_days
  alarms             = { topic_arn = var.alarms.topic_arn, lag_seconds = var.alarms.lag_seconds, turn_seconds = var.alarms.turn_seconds, vcpu = coalesce(var.alarms.vcpu, var.spark.max_vcpu * 0.75) }
  kms_key_arn        = var.kms_key_arn
  tags               = var.tags
}
