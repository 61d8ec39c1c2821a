# The roles of the trigger's function, of the jobs, and of whoever removes files. No action and no resource is a
# wildcard, but where a comment says why; the policies are text, so that tests can judge them without an account.
locals {
  glue = "arn:${var.account.partition}:glue:${var.account.region}:${var.account.id}"
  s3   = "arn:${var.account.partition}:s3:::"

  # Tables as they are named in ARNs of Glue, after their catalog and their databases.
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

  # The policies of a role's own have 10,240 characters together, which some sixty tables fill. So what names tables is in
  # managed ones: 6,144 characters each, as many names in one as fit.
  asked_of_glue = { for role, statements in {
    trigger     = local.trigger_in_glue
    job         = local.job_in_glue
    maintenance = local.maintenance_in_glue
  } : role => flatten([for one in statements : [for name in one.names : { sid = one.sid, actions = one.actions, name = name }]]) }

  parts_of_glue = merge([for role, asked in local.asked_of_glue : {
    for part, some in {
      for at, one in asked : floor((local.arn_characters * at + length(join("", slice(asked, 0, at)[*].name))) / local.part_characters) => one...
      } : "${role}-tables-${part}" => { role = role, statements = [for sid in distinct(some[*].sid) : {
        Sid      = sid
        Effect   = "Allow"
        Action   = [for one in some : one.actions if one.sid == sid][0]
        Resource = [for one in some : "${local.glue}:${one.name}" if one.sid == sid]
    }] }
  }]...)
  arn_characters  = 53   # of an ARN but for its name, with its quotes
  part_characters = 4800 # the rest is for the longest name that Glue has, and for what stands around the names

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
  for_each = local.parts_of_glue

  name        = "${var.name}-${each.key}"
  description = "icemirror ${var.name}: what the ${each.value.role} may ask Glue"
  policy      = jsonencode({ Version = "2012-10-17", Statement = each.value.statements })
  tags        = var.tags

  lifecycle {
    precondition {
      condition     = length([for part in local.parts_of_glue : part if part.role == each.value.role]) <= 10
      error_message = "These tables need more than the ten policies that a role may have. Use `discover`, which names databases instead, or a second installation with another `name`."
    }
  }
}

resource "aws_iam_role_policy_attachment" "tables" {
  for_each = local.parts_of_glue

  role       = aws_iam_role.this[each.value.role].name
  policy_arn = aws_iam_policy.tables[each.key].arn
}
