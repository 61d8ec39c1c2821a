# What the trigger hears of: rules of EventBridge that end in its queue.
locals {
  buckets = distinct([for one in var.changelogs : one.bucket])

  # One rule for each bucket: a key of one and a bucket of another do not go together.
  of_buckets = { for bucket in local.buckets : "s3-${bucket}" => {
    description = "icemirror: commits on changelogs in ${bucket}"
    pattern = {
      source        = ["aws.s3"]
      "detail-type" = ["Object Created"]
      account       = [var.account_id]
      detail = {
        bucket = { name = [bucket] }
        # A data file precedes its commit and may belong to none.
        object = { key = [for one in var.changelogs : { wildcard = "${one.prefix}*.metadata.json" } if one.bucket == bucket] }
      }
    }
  } }

  of_glue = {
    glue = {
      description = "icemirror: changelogs that changed in Glue"
      pattern = {
        source        = ["aws.glue"]
        "detail-type" = ["Glue Data Catalog Table State Change"]
        account       = [var.account_id]
        detail        = { databaseName = var.databases }
      }
    }
  }

  of_runs = {
    runs = {
      description = "icemirror: jobs that ended"
      pattern = {
        source        = ["aws.emr-serverless"]
        "detail-type" = ["EMR Serverless Job Run State Change"]
        account       = [var.account_id]
        detail        = { applicationId = [var.application_id], state = ["SUCCESS", "FAILED", "CANCELLED"] }
      }
    }
  }

  # A name that was only cut could be another bucket's as well.
  names = { for rule in keys(local.rules) : rule => length("${var.name}-${rule}") <= 64 ? "${var.name}-${rule}" : "${substr("${var.name}-${rule}", 0, 55)}-${substr(sha256(rule), 0, 8)}" }

  rules = merge(var.s3 ? local.of_buckets : {}, var.glue ? local.of_glue : {}, local.of_runs)
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.rules

  name          = local.names[each.key]
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.rules

  rule = aws_cloudwatch_event_rule.this[each.key].name
  arn  = var.queue_arn
}

resource "aws_s3_bucket_notification" "this" {
  for_each = var.s3 && var.own_bucket_notifications ? toset(local.buckets) : toset([])

  bucket      = each.value
  eventbridge = true
}

resource "aws_lambda_event_source_mapping" "msk" {
  count = var.msk == null ? 0 : 1

  event_source_arn  = var.msk.cluster_arn
  function_name     = var.function_arn
  topics            = var.msk.topics
  starting_position = "TRIM_HORIZON"
  tags              = var.tags

  amazon_managed_kafka_event_source_config {
    consumer_group_id = var.msk.consumer_group
  }
}
