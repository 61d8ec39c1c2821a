# Roles of the trigger, the jobs, maintenance and its scheduler. Actions and resources have no wildcard unless a comment
# gives the reason. Policies are plain text, so that tests can evaluate them without an account.
locals {
  glue = "arn:${var.account.partition}:glue:${var.account.region}:${var.account.id}"
  s3   = "arn:${var.account.partition}:s3:::"

  # Resource names in Glue ARNs: the catalog, the databases, the tables.
  changelogs_in_glue = concat(
    ["catalog"],
    distinct([for one in var.changelog_tables : "database/${one.database}"]),
    distinct([for one in var.changelog_tables : "table/${one.database}/${one.table}"]),
  )
  mirrors_in_glue = concat(
    ["catalog"],
    distinct([for one in var.mirror_tables : "database/${one.database}"]),
    distinct([for one in var.mirror_tables : "table/${one.database}/${one.table}"]),
  )
  rejects_in_glue = length(var.rejects_tables) == 0 ? [] : concat(
    ["catalog"],
    distinct([for one in var.rejects_tables : "database/${one.database}"]),
    [for one in var.rejects_tables : "table/${one.database}/${one.table}"],
  )

  # Discovery lists whole databases.
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

  # Without s3:ListBucket, a missing object and a forbidden one give the same error.
  list_changelogs = [for at, bucket in distinct(var.changelogs[*].bucket) : {
    Sid       = "ListChangelogs${at}"
    Effect    = "Allow"
    Action    = ["s3:ListBucket"]
    Resource  = ["${local.s3}${bucket}"]
    Condition = { StringLike = { "s3:prefix" = [for one in var.changelogs : "${one.prefix}*" if one.bucket == bucket] } }
  }]
  list_mirrors = [for at, bucket in distinct(var.mirrors[*].bucket) : {
    Sid       = "ListMirrors${at}"
    Effect    = "Allow"
    Action    = ["s3:ListBucket"]
    Resource  = ["${local.s3}${bucket}"]
    Condition = { StringLike = { "s3:prefix" = [for one in var.mirrors : "${one.prefix}*" if one.bucket == bucket] } }
  }]
  mirror_objects = [for one in var.mirrors : "${local.s3}${one.bucket}/${one.prefix}*"]

  use_key = var.kms_key_arn == null ? [] : [{
    Sid      = "UseKey"
    Effect   = "Allow"
    Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource = [var.kms_key_arn]
  }]

  # EMR refuses a job with encrypted disks if the caller cannot describe the key.
  launch_with_key = var.job_key_arn == null ? [] : [{
    Sid      = "LaunchWithKey"
    Effect   = "Allow"
    Action   = ["kms:DescribeKey"]
    Resource = [var.job_key_arn]
  }]
  use_lake_keys = length(var.lake_key_arns) == 0 ? [] : [{
    Sid      = "UseLakeKeys"
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
    job         = concat(local.job, local.discover_changelogs, local.list_changelogs, local.list_mirrors, local.keep_state, local.use_key, local.use_lake_keys)
    maintenance = concat(local.maintenance, local.discover_changelogs, local.maintenance_as_job, local.list_mirrors, local.use_key, local.use_lake_keys)
  }, { for role, policy in { scheduler = concat(local.scheduler, local.use_key, local.launch_with_key) } : role => policy if var.maintenance_job })

  # Inline policies of a role are limited to 10,240 characters, about sixty tables. Statements that name tables are
  # therefore in managed policies of up to 6,144 characters each, filled in order.
  glue_permissions = { for role, statements in {
    trigger     = local.trigger_in_glue
    job         = local.job_in_glue
    maintenance = local.maintenance_in_glue
  } : role => flatten([for statement in statements : [for name in statement.names : { sid = statement.sid, actions = statement.actions, name = name }]]) }

  table_policies = merge([for role, permissions in local.glue_permissions : {
    for part, chunk in {
      for at, permission in permissions : floor((local.arn_characters * at + length(join("", slice(permissions, 0, at)[*].name))) / local.part_characters) => permission...
      } : "${role}-tables-${part}" => { role = role, statements = [for sid in distinct(chunk[*].sid) : {
        Sid      = sid
        Effect   = "Allow"
        Action   = [for permission in chunk : permission.actions if permission.sid == sid][0]
        Resource = [for permission in chunk : "${local.glue}:${permission.name}" if permission.sid == sid]
    }] }
  }]...)
  arn_characters  = 53   # a quoted Glue ARN without its resource name
  part_characters = 4800 # leaves room for the longest Glue name and for the rest of the policy

  # Trust policies. A service acts only for this account, and EMR only for this application.
  emr_trust = {
    Effect    = "Allow"
    Action    = "sts:AssumeRole"
    Principal = { Service = "emr-serverless.amazonaws.com" }
    Condition = {
      StringEquals = { "aws:SourceAccount" = var.account.id }
      ArnLike      = { "aws:SourceArn" = var.application_arn }
    }
  }
  scheduler_trust = { scheduler = [{
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
    job = [local.emr_trust]
    # By default the account's IAM policies decide who can assume this role.
    maintenance = concat([for trust in [local.emr_trust] : trust if var.maintenance_job], [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { AWS = coalescelist(var.maintenance_principals, ["arn:${var.account.partition}:iam::${var.account.id}:root"]) }
    }])
  }, { for role, trust in local.scheduler_trust : role => trust if var.maintenance_job })
}

resource "aws_iam_role" "this" {
  for_each = local.trusts

  name               = "${var.name}-${each.key}"
  description        = "icemirror ${var.name}: the ${each.key}"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = local.trusts[each.key] })

  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
}

resource "aws_iam_role_policy" "this" {
  for_each = local.policies

  name   = each.key
  role   = aws_iam_role.this[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = each.value })
}

resource "aws_iam_policy" "tables" {
  for_each = local.table_policies

  name        = "${var.name}-${each.key}"
  description = "icemirror ${var.name}: tables of the ${each.value.role} in Glue"
  policy      = jsonencode({ Version = "2012-10-17", Statement = each.value.statements })
  tags        = var.tags

  lifecycle {
    precondition {
      condition     = length([for part in local.table_policies : part if part.role == each.value.role]) <= 10
      error_message = "Too many tables: a role can have at most ten managed policies. Use `discover`, which names databases instead of tables, or a second installation with another `name`."
    }
  }
}

resource "aws_iam_role_policy_attachment" "tables" {
  for_each = local.table_policies

  role       = aws_iam_role.this[each.value.role].name
  policy_arn = aws_iam_policy.tables[each.key].arn
}
