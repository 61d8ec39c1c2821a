# What the trigger hears of: rules of EventBridge that end in its queue.
locals {
  # One rule for each folder, by its place in the list: a bucket that is made in the same configuration has no name yet when
  # that is planned, and a pattern that named all folders could be longer than the 2,048 letters that EventBridge takes.
  of_folders = { for at, one in var.changelogs : "s3-${at}" => {
    description = "icemirror: commits on changelogs in ${one.bucket}"
    pattern = {
      source        = ["aws.s3"]
      "detail-type" = ["Object Created"]
      account       = [var.account_id]
      detail = {
        bucket = { name = [one.bucket] }
        # A data file precedes its commit and may belong to none.
        object = { key = [{ wildcard = "${one.prefix}*.metadata.json" }] }
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

  rules = merge(var.s3 ? local.of_folders : {}, var.glue ? local.of_glue : {}, local.of_runs)
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.rules

  name          = "${var.name}-${each.key}"
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
  for_each = var.s3 && var.own_bucket_notifications ? toset([for one in var.changelogs : one.bucket]) : toset([])

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
