# The roles of the trigger's function, of the jobs, and of whoever removes files. No action and no resource is a
# wildcard, but where a comment says why; the policies are text, so that tests can judge them without an account.
locals {
  glue = "arn:${var.account.partition}:glue:${var.account.region}:${var.account.id}"
  s3   = "arn:${var.account.partition}:s3:::"

  changelog_databases = distinct([for one in var.changelog_tables : one.database])
  mirror_databases    = distinct([for one in var.mirror_tables : one.database])
  changelog_tables    = [for one in var.changelog_tables : "${local.glue}:table/${one.database}/${one.table}"]
  mirror_tables       = [for one in var.mirror_tables : "${local.glue}:table/${one.database}/${one.table}"]

  catalog_of_changelogs = concat(
    ["${local.glue}:catalog"],
    [for database in local.changelog_databases : "${local.glue}:database/${database}"],
    local.changelog_tables,
  )
  catalog_of_mirrors = concat(
    ["${local.glue}:catalog"],
    [for database in local.mirror_databases : "${local.glue}:database/${database}"],
    local.mirror_tables,
  )
  catalog_of_rejects = concat(
    ["${local.glue}:catalog"],
    [for database in distinct([for one in var.rejects_tables : one.database]) : "${local.glue}:database/${database}"],
    [for one in var.rejects_tables : "${local.glue}:table/${one.database}/${one.table}"],
  )

  # Only where changelogs are discovered is a whole database asked about.
  discovered_databases = distinct([for one in var.changelog_tables : one.database if one.table == "*"])
  discover_changelogs = length(local.discovered_databases) == 0 ? [] : [{
    Sid    = "DiscoverChangelogs"
    Effect = "Allow"
    Action = ["glue:GetTables"]
    Resource = concat(
      ["${local.glue}:catalog"],
      [for database in local.discovered_databases : "${local.glue}:database/${database}"],
      [for database in local.discovered_databases : "${local.glue}:table/${database}/*"],
    )
  }]

  # Listing tells an object that is missing from one that may not be read.
  list_changelogs = [for one in var.changelogs : {
    Sid       = "ListChangelogs${index(var.changelogs, one)}"
    Effect    = "Allow"
    Action    = ["s3:ListBucket"]
    Resource  = ["${local.s3}${one.bucket}"]
    Condition = { StringLike = { "s3:prefix" = ["${one.prefix}*"] } }
  }]
  list_mirrors = [for one in var.mirrors : {
    Sid       = "ListMirrors${index(var.mirrors, one)}"
    Effect    = "Allow"
    Action    = ["s3:ListBucket"]
    Resource  = ["${local.s3}${one.bucket}"]
    Condition = { StringLike = { "s3:prefix" = ["${one.prefix}*"] } }
  }]
  mirror_objects = [for one in var.mirrors : "${local.s3}${one.bucket}/${one.prefix}*"]

  use_key = var.kms_key_arn == null ? [] : [{
    Sid      = "UseKey"
    Effect   = "Allow"
    Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource = [var.kms_key_arn]
  }]

  # EMR takes no job for encrypted disks from those who may not look at the key.
  launch_with_key = var.job_key_arn == null ? [] : [{
    Sid      = "LaunchWithKey"
    Effect   = "Allow"
    Action   = ["kms:DescribeKey"]
    Resource = [var.job_key_arn]
  }]
  use_keys_of_lake = length(var.lake_key_arns) == 0 ? [] : [{
    Sid      = "UseKeysOfLake"
    Effect   = "Allow"
    Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource = var.lake_key_arns
  }]

  keep_state = [{
    Sid    = "KeepState"
    Effect = "Allow"
    Action = [
      "dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem",
    ]
    Resource = [var.state_table_arn]
  }]

  policies = merge({
    trigger     = concat(local.trigger, local.discover_changelogs, local.msk, local.keep_state, local.use_key, local.launch_with_key)
    job         = concat(local.job, local.discover_changelogs, local.list_changelogs, local.list_mirrors, local.keep_state, local.use_key, local.use_keys_of_lake)
    maintenance = concat(local.maintenance, local.discover_changelogs, local.maintenance_as_job, local.list_mirrors, local.use_key, local.use_keys_of_lake)
  }, { for role, policy in { scheduler = concat(local.scheduler, local.use_key, local.launch_with_key) } : role => policy if var.maintenance_job })

  # Who may be each of them. A service acts only for this account, and EMR only for this application.
  of_application = {
    Effect    = "Allow"
    Action    = "sts:AssumeRole"
    Principal = { Service = "emr-serverless.amazonaws.com" }
    Condition = {
      StringEquals = { "aws:SourceAccount" = var.account.id }
      ArnLike      = { "aws:SourceArn" = var.application_arn }
    }
  }
  trust_of_scheduler = { scheduler = [{
    Effect    = "Allow"
    Action    = "sts:AssumeRole"
    Principal = { Service = "scheduler.amazonaws.com" }
    Condition = { StringEquals = { "aws:SourceAccount" = var.account.id } }
  }] }
  trusts = merge({
    trigger = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "lambda.amazonaws.com" }
    }]
    job = [local.of_application]
    # By default whoever the account itself allows to.
    maintenance = concat([for one in [local.of_application] : one if var.maintenance_job], [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { AWS = coalescelist(var.maintenance_principals, ["arn:${var.account.partition}:iam::${var.account.id}:root"]) }
    }])
  }, { for role, trust in local.trust_of_scheduler : role => trust if var.maintenance_job })
}

resource "aws_iam_role" "this" {
  for_each = local.trusts

  name               = "${var.name}-${each.key}"
  description        = "icemirror ${var.name}: the ${each.key}"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = local.trusts[each.key] })
  tags               = var.tags
}

resource "aws_iam_role_policy" "this" {
  for_each = local.policies

  name   = each.key
  role   = aws_iam_role.this[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = each.value })
}
