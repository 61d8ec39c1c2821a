# Resources of each module, planned without an account.
mock_provider "aws" {}

run "spark_application_is_capped_and_private" {
  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.13.0"
    architecture       = "arm64"
    maximum            = { vcpu = 16, memory_gb = 64, disk_gb = 200 }
    idle_minutes       = 5
    warm               = { drivers = 1, executors = 2, vcpu = 2, memory_gb = 8 }
    image_uri          = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    network            = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
    kms_key_arn        = "arn:aws:kms:eu-central-1:123456789012:key/k"
    log_retention_days = 30
  }

  override_data {
    target = data.aws_subnet.workers
    values = { map_public_ip_on_launch = false }
  }

  assert {
    condition     = aws_emrserverless_application.this.maximum_capacity[0].cpu == "16 vCPU" && aws_emrserverless_application.this.maximum_capacity[0].memory == "64 GB"
    error_message = "The application must have capacity limits."
  }
  assert {
    condition     = aws_emrserverless_application.this.auto_stop_configuration[0].enabled && aws_emrserverless_application.this.auto_stop_configuration[0].idle_timeout_minutes == 5
    error_message = "The application must stop when idle."
  }
  assert {
    condition     = aws_emrserverless_application.this.architecture == "ARM64" && length(aws_emrserverless_application.this.initial_capacity) == 2
    error_message = "Architecture and warm workers must match the variables."
  }
  assert {
    condition     = aws_emrserverless_application.this.network_configuration[0].subnet_ids == toset(["subnet-1"])
    error_message = "The application must be in the private network."
  }
  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
    error_message = "The key must encrypt code and logs."
  }
}

run "public_subnet_is_refused" {
  command = plan

  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.13.0"
    architecture       = "x86_64"
    maximum            = { vcpu = 16, memory_gb = 64, disk_gb = 200 }
    idle_minutes       = 5
    warm               = { drivers = 0, executors = 0, vcpu = 2, memory_gb = 8 }
    image_uri          = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    network            = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
    log_retention_days = 30
  }

  override_data {
    target = data.aws_subnet.workers
    values = { map_public_ip_on_launch = true }
  }

  expect_failures = [aws_emrserverless_application.this]
}

run "trigger_encrypts_state_and_queues" {
  command = plan

  module {
    source = "./modules/trigger"
  }

  variables {
    name            = "shop"
    account         = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    rule_arns       = ["arn:aws:events:eu-central-1:123456789012:rule/shop-any"]
    package         = { zip = "versions.tf", runtime = "python3.12" }
    architecture    = "arm64"
    configuration   = "{}"
    role_arn        = "arn:aws:iam::123456789012:role/shop-trigger"
    log_group_name  = "/aws/lambda/shop"
    timeout_seconds = 60
    sweep_minutes   = 5
    kms_key_arn     = "arn:aws:kms:eu-central-1:123456789012:key/k"
  }

  assert {
    condition     = aws_dynamodb_table.state.point_in_time_recovery[0].enabled && aws_dynamodb_table.state.ttl[0].attribute_name == "expires_at"
    error_message = "The state must have point-in-time recovery and a TTL for dead letters."
  }
  assert {
    condition     = aws_dynamodb_table.state.hash_key == "kind" && aws_dynamodb_table.state.range_key == "key"
    error_message = "The table's keys must be those that icemirror uses."
  }
  assert {
    condition     = alltrue([for key in [aws_dynamodb_table.state.server_side_encryption[0].kms_key_arn, aws_sqs_queue.events.kms_master_key_id, aws_sqs_queue.dead.kms_master_key_id, aws_lambda_function.this.kms_key_arn] : key == var.kms_key_arn])
    error_message = "The key must encrypt state, queues and environment."
  }
  assert {
    condition     = aws_sqs_queue.events.visibility_timeout_seconds >= 6 * aws_lambda_function.this.timeout
    error_message = "The visibility timeout must be six times the function's timeout."
  }
  assert {
    condition     = tolist(jsondecode(aws_sqs_queue.events.policy).Statement[0].Condition.ArnEquals["aws:SourceArn"]) == var.rule_arns && jsondecode(aws_sqs_queue.events.policy).Statement[0].Condition.StringEquals["aws:SourceAccount"] == "123456789012"
    error_message = "Only the given rules of this account can send to the queue."
  }
  assert {
    condition     = aws_lambda_function.this.architectures == tolist(["arm64"])
    error_message = "The function must have the given architecture."
  }
  assert {
    condition     = aws_lambda_event_source_mapping.queue.function_response_types == toset(["ReportBatchItemFailures"])
    error_message = "One failed message must not fail its batch."
  }
  assert {
    condition     = aws_cloudwatch_event_rule.sweep.schedule_expression == "rate(5 minutes)" && aws_cloudwatch_event_target.sweep.input == "{\"icemirror\":\"sweep\"}"
    error_message = "A sweep must run every five minutes."
  }
}

run "function_architecture_is_validated" {
  command = plan

  module {
    source = "./modules/trigger"
  }

  variables {
    name            = "shop"
    account         = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    rule_arns       = []
    package         = { zip = "versions.tf", runtime = "python3.12" }
    architecture    = "ARM64" # EMR's spelling
    configuration   = "{}"
    role_arn        = "arn:aws:iam::123456789012:role/shop-trigger"
    log_group_name  = "/aws/lambda/shop"
    timeout_seconds = 60
    sweep_minutes   = 5
  }

  expect_failures = [var.architecture]
}

run "job_architecture_is_validated" {
  command = plan

  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.13.0"
    architecture       = "aarch64"
    maximum            = { vcpu = 16, memory_gb = 64, disk_gb = 200 }
    idle_minutes       = 5
    warm               = { drivers = 0, executors = 0, vcpu = 2, memory_gb = 8 }
    image_uri          = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    log_retention_days = 30
  }

  expect_failures = [var.architecture]
}

run "mirror_must_not_be_a_changelog" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    name             = "shop"
    account          = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    changelogs       = [{ bucket = "lake", prefix = "raw/" }]
    mirrors          = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables = [{ database = "raw", table = "orders_changelog" }, { database = "raw", table = "items_changelog" }]
    mirror_tables    = [{ database = "shop", table = "orders" }, { database = "raw", table = "orders_changelog" }]
    queue_arn        = "arn:aws:sqs:eu-central-1:123456789012:shop-events"
    state_table_arn  = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
    application_arn  = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1"
    code_arns        = []
    logs             = { bucket = "shop-jobs", prefix = "logs/" }
    log_group_arn    = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop"
  }

  expect_failures = [var.mirror_tables]
}

run "rejects_table_must_not_be_a_changelog" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    name             = "shop"
    account          = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    changelogs       = [{ bucket = "lake", prefix = "raw/" }]
    mirrors          = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables = [{ database = "raw", table = "orders_changelog" }]
    mirror_tables    = [{ database = "shop", table = "orders" }]
    rejects_tables   = [{ database = "raw", table = "orders_changelog" }]
    queue_arn        = "arn:aws:sqs:eu-central-1:123456789012:shop-events"
    state_table_arn  = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
    application_arn  = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1"
    code_arns        = []
    logs             = { bucket = "shop-jobs", prefix = "logs/" }
    log_group_arn    = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop"
  }

  expect_failures = [var.rejects_tables]
}

run "each_changelog_folder_has_its_own_rule" {
  command = plan

  module {
    source = "./modules/events"
  }

  variables {
    name                     = "icemirror-with-a-very-long-name1"
    account_id               = "123456789012"
    queue_arn                = "arn:aws:sqs:eu-central-1:123456789012:shop-events"
    function_arn             = "arn:aws:lambda:eu-central-1:123456789012:function:shop"
    application_id           = "00f1"
    changelogs               = [for at in range(50) : { bucket = "company-data-lake-in-production-${at % 2}", prefix = "raw/in/a/folder/with/a/long/name/${at}/" }]
    databases                = ["raw"]
    s3                       = true
    own_bucket_notifications = false
    glue                     = false
  }

  assert {
    condition     = length(distinct([for rule in aws_cloudwatch_event_rule.this : rule.name])) == 51
    error_message = "Rule names must be unique."
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.this : length(rule.name) <= 64])
    error_message = "A rule name has at most 64 characters."
  }
  assert {
    condition = alltrue([for at, folder in var.changelogs : jsondecode(aws_cloudwatch_event_rule.this["s3-${at}"].event_pattern).detail == {
      bucket = { name = [folder.bucket] }
      object = { key = [{ wildcard = "${folder.prefix}*.metadata.json" }] }
    }])
    error_message = "A rule must combine the bucket and the prefix of the same folder."
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.this : length(rule.event_pattern) <= 2048])
    error_message = "An EventBridge pattern has at most 2,048 characters."
  }
  assert {
    condition     = length(aws_s3_bucket_notification.this) == 0
    error_message = "Bucket notifications must stay untouched by default."
  }
}

run "failed_maintenance_is_reported" {
  module {
    source = "./modules/maintenance"
  }

  variables {
    name               = "shop"
    partition          = "aws"
    account_id         = "123456789012"
    schedule           = "cron(0 2 * * ? *)"
    application_id     = "00f1"
    entry_point        = "local:///opt/icemirror/icemirror_job.py"
    archives           = []
    log_uri            = "s3://shop-jobs/logs/"
    configuration      = "{}"
    workers            = {}
    job_role_arn       = "arn:aws:iam::123456789012:role/shop-maintenance"
    scheduler_role_arn = "arn:aws:iam::123456789012:role/shop-scheduler"
    kms_key_arn        = "arn:aws:kms:eu-central-1:123456789012:key/k"
  }

  override_resource {
    target = aws_sqs_queue.failures
    values = { arn = "arn:aws:sqs:eu-central-1:123456789012:shop-maintenance-failures" }
  }
  override_resource {
    target = aws_cloudwatch_event_rule.failed
    values = { arn = "arn:aws:events:eu-central-1:123456789012:rule/shop-maintenance-failed" }
  }

  assert {
    condition     = jsondecode(aws_cloudwatch_event_rule.failed.event_pattern).detail.createdBy[0].prefix == "arn:aws:sts::123456789012:assumed-role/shop-scheduler/" && jsondecode(aws_cloudwatch_event_rule.failed.event_pattern).detail.applicationId[0] == "00f1"
    error_message = "Only runs that the scheduler started on this application count: other jobs have their own alarms."
  }
  assert {
    condition     = toset(jsondecode(aws_cloudwatch_event_rule.failed.event_pattern).detail.state) == toset(["FAILED", "CANCELLED"])
    error_message = "Failed runs count, and cancelled ones, because a timeout cancels a run."
  }
  assert {
    condition     = aws_cloudwatch_event_target.failed.arn == aws_sqs_queue.failures.arn && aws_scheduler_schedule.this.target[0].dead_letter_config[0].arn == aws_sqs_queue.failures.arn
    error_message = "Failed runs and failed starts must go to the same queue."
  }
  assert {
    condition     = jsondecode(aws_sqs_queue_policy.failures.policy).Statement[0].Condition.ArnEquals["aws:SourceArn"] == aws_cloudwatch_event_rule.failed.arn && jsondecode(aws_sqs_queue_policy.failures.policy).Statement[0].Condition.StringEquals["aws:SourceAccount"] == "123456789012"
    error_message = "Only the rule of this account can send to the queue."
  }
  assert {
    condition     = aws_sqs_queue.failures.kms_master_key_id == var.kms_key_arn && aws_sqs_queue.failures.message_retention_seconds >= (24 + jsondecode(aws_scheduler_schedule.this.target[0].input).ExecutionTimeoutMinutes / 60) * 3600
    error_message = "The key must encrypt the queue, and a failure must stay until the next nightly run has ended."
  }
}

run "bucket_with_two_folders_has_one_notification" {
  command = plan

  module {
    source = "./modules/events"
  }

  variables {
    name                     = "shop"
    account_id               = "123456789012"
    queue_arn                = "arn:aws:sqs:eu-central-1:123456789012:shop-events"
    function_arn             = "arn:aws:lambda:eu-central-1:123456789012:function:shop"
    application_id           = "00f1"
    changelogs               = [{ bucket = "lake", prefix = "raw/" }, { bucket = "lake", prefix = "more/" }]
    databases                = ["raw"]
    s3                       = true
    own_bucket_notifications = true
    glue                     = false
  }

  assert {
    condition     = keys(aws_s3_bucket_notification.this) == ["lake"]
    error_message = "A bucket has a single notification document."
  }
}

run "alarms_cover_slow_sweeps" {
  command = plan

  module {
    source = "./modules/observability"
  }

  variables {
    name               = "shop"
    function_name      = "shop-function"
    region             = "eu-central-1"
    application_id     = "00f1"
    queue_names        = { events = "shop-events", dead_letters = "shop-dead", failed_maintenance = "shop-failures" }
    sweep_minutes      = 20
    log_retention_days = 30
    alarms             = { lag_seconds = 900, turn_seconds = 3600, vcpu = 12 }
    kms_key_arn        = "arn:aws:kms:eu-central-1:123456789012:key/k"
  }

  # With too few data points, `ignore` keeps the alarm's state.
  assert {
    condition     = alltrue([for name in ["lag", "quarantine", "turn"] : aws_cloudwatch_metric_alarm.this[name].treat_missing_data == "ignore" && aws_cloudwatch_metric_alarm.this[name].period >= 20 * 60])
    error_message = "Each period must contain the data of a sweep."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["sweep"].metric_name == "lag_seconds" && aws_cloudwatch_metric_alarm.this["sweep"].statistic == "SampleCount" && aws_cloudwatch_metric_alarm.this["sweep"].treat_missing_data == "breaching"
    error_message = "The alarm must count sweeps, not invocations: a function that only receives events does not sweep."
  }
  assert {
    condition     = alltrue([for name in ["errors"] : aws_cloudwatch_metric_alarm.this[name].dimensions.FunctionName == "shop-function"]) && strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "shop-function")
    error_message = "Alarm and dashboard must name the created function."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["maintenance"].dimensions.QueueName == "shop-failures" && aws_cloudwatch_metric_alarm.this["maintenance"].threshold == 0 && strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "shop-failures")
    error_message = "One failure of maintenance must raise the alarm."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.cost.evaluation_periods * one(aws_cloudwatch_metric_alarm.cost.metric_query).period == 3 * 3600 && aws_cloudwatch_metric_alarm.cost.datapoints_to_alarm < aws_cloudwatch_metric_alarm.cost.evaluation_periods
    error_message = "The alarm must tolerate gaps: EMR's metric drops to zero at times."
  }
  assert {
    condition     = strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "{AWS/EMRServerless,ApplicationId,ApplicationName}")
    error_message = "The search must name its dimensions, else it finds the metrics of every past job."
  }
  assert {
    condition     = aws_cloudwatch_log_group.trigger.kms_key_id == var.kms_key_arn && aws_cloudwatch_log_group.trigger.retention_in_days == 30
    error_message = "The key must encrypt the logs, and their retention must match the variable."
  }
}
