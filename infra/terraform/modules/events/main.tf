# Event sources of the trigger: EventBridge rules that send to its queue, and topics of an MSK cluster.
locals {
  # One rule per folder, named by its position, because a bucket that is created in the same plan has no known name yet.
  # One pattern with all folders could exceed EventBridge's limit of 2,048 characters.
  folder_rules = { for at, folder in var.changelogs : "s3-${at}" => {
    description = "icemirror: commits on changelogs in ${folder.bucket}"
    pattern = {
      source        = ["aws.s3"]
      "detail-type" = ["Object Created"]
      account       = [var.account_id]
      detail = {
        bucket = { name = [folder.bucket] }
        # Metadata files only: data files are written before their commit, or for no commit.
        object = { key = [{ wildcard = "${folder.prefix}*.metadata.json" }] }
      }
    }
  } }

  glue_rules = {
    glue = {
      description = "icemirror: changelogs updated in Glue"
      pattern = {
        source        = ["aws.glue"]
        "detail-type" = ["Glue Data Catalog Table State Change"]
        account       = [var.account_id]
        detail        = { databaseName = var.databases }
      }
    }
  }

  run_rules = {
    runs = {
      description = "icemirror: ended job runs"
      pattern = {
        source        = ["aws.emr-serverless"]
        "detail-type" = ["EMR Serverless Job Run State Change"]
        account       = [var.account_id]
        detail        = { applicationId = [var.application_id], state = ["SUCCESS", "FAILED", "CANCELLED"] }
      }
    }
  }

  rules = merge(var.s3 ? local.folder_rules : {}, var.glue ? local.glue_rules : {}, local.run_rules)
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
  for_each = var.s3 && var.own_bucket_notifications ? toset([for folder in var.changelogs : folder.bucket]) : toset([])

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
