# What a plan must say of each resource; nothing of it needs an account.
mock_provider "aws" {}

run "spark_is_capped_private_and_pinned" {
  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.10.0"
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
    target = data.aws_subnet.of_workers
    values = { map_public_ip_on_launch = false }
  }

  assert {
    condition     = aws_emrserverless_application.this.maximum_capacity[0].cpu == "16 vCPU" && aws_emrserverless_application.this.maximum_capacity[0].memory == "64 GB"
    error_message = "What it may cost has a cap."
  }
  assert {
    condition     = aws_emrserverless_application.this.auto_stop_configuration[0].enabled && aws_emrserverless_application.this.auto_stop_configuration[0].idle_timeout_minutes == 5
    error_message = "It stops by itself."
  }
  assert {
    condition     = aws_emrserverless_application.this.architecture == "ARM64" && length(aws_emrserverless_application.this.initial_capacity) == 2
    error_message = "Architecture and warm workers are those that were asked for."
  }
  assert {
    condition     = aws_emrserverless_application.this.network_configuration[0].subnet_ids == toset(["subnet-1"])
    error_message = "It is in the private network."
  }
  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
    error_message = "Code and logs are encrypted with the key."
  }
}

run "a_public_subnet_is_refused" {
  command = plan

  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.10.0"
    architecture       = "x86_64"
    maximum            = { vcpu = 16, memory_gb = 64, disk_gb = 200 }
    idle_minutes       = 5
    warm               = { drivers = 0, executors = 0, vcpu = 2, memory_gb = 8 }
    image_uri          = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    network            = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
    log_retention_days = 30
  }

  override_data {
    target = data.aws_subnet.of_workers
    values = { map_public_ip_on_launch = true }
  }

  expect_failures = [aws_emrserverless_application.this]
}

run "the_trigger_keeps_and_encrypts" {
  command = plan

  module {
    source = "./modules/trigger"
  }

  variables {
    name            = "shop"
    account         = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    sender_arns     = ["arn:aws:events:eu-central-1:123456789012:rule/shop-any"]
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
    error_message = "The state can be recovered, and forgets dead letters."
  }
  assert {
    condition     = aws_dynamodb_table.state.hash_key == "kind" && aws_dynamodb_table.state.range_key == "key"
    error_message = "The state's keys are those of icemirror."
  }
  assert {
    condition     = alltrue([for key in [aws_dynamodb_table.state.server_side_encryption[0].kms_key_arn, aws_sqs_queue.events.kms_master_key_id, aws_sqs_queue.dead.kms_master_key_id, aws_lambda_function.this.kms_key_arn] : key == var.kms_key_arn])
    error_message = "State, queues and environment are encrypted with the key."
  }
  assert {
    condition     = aws_sqs_queue.events.visibility_timeout_seconds >= 6 * aws_lambda_function.this.timeout
    error_message = "A message stays hidden for six times the function's time-out."
  }
  assert {
    condition     = tolist(jsondecode(aws_sqs_queue.events.policy).Statement[0].Condition.ArnEquals["aws:SourceArn"]) == var.sender_arns && jsondecode(aws_sqs_queue.events.policy).Statement[0].Condition.StringEquals["aws:SourceAccount"] == "123456789012"
    error_message = "Only our rules of our account send to the queue."
  }
  assert {
    condition     = aws_lambda_function.this.architectures == tolist(["arm64"])
    error_message = "The function runs on the processors that were asked for."
  }
  assert {
    condition     = aws_lambda_event_source_mapping.queue.function_response_types == toset(["ReportBatchItemFailures"])
    error_message = "A message that fails, fails alone."
  }
  assert {
    condition     = aws_cloudwatch_event_rule.sweep.schedule_expression == "rate(5 minutes)" && aws_cloudwatch_event_target.sweep.input == "{\"icemirror\":\"sweep\"}"
    error_message = "It looks at all changelogs every five minutes."
  }
}

run "the_function_has_no_other_processors" {
  command = plan

  module {
    source = "./modules/trigger"
  }

  variables {
    name            = "shop"
    account         = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    sender_arns     = []
    package         = { zip = "versions.tf", runtime = "python3.12" }
    architecture    = "ARM64" # as EMR writes it
    configuration   = "{}"
    role_arn        = "arn:aws:iam::123456789012:role/shop-trigger"
    log_group_name  = "/aws/lambda/shop"
    timeout_seconds = 60
    sweep_minutes   = 5
  }

  expect_failures = [var.architecture]
}

run "jobs_have_no_other_processors" {
  command = plan

  module {
    source = "./modules/spark"
  }

  variables {
    name               = "shop"
    account_id         = "123456789012"
    release_label      = "emr-7.10.0"
    architecture       = "aarch64"
    maximum            = { vcpu = 16, memory_gb = 64, disk_gb = 200 }
    idle_minutes       = 5
    warm               = { drivers = 0, executors = 0, vcpu = 2, memory_gb = 8 }
    image_uri          = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    log_retention_days = 30
  }

  expect_failures = [var.architecture]
}

run "jobs_may_not_write_what_is_not_theirs" {
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

run "bad_rows_go_into_no_changelog" {
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
