# The plan refuses wrong variables, before any resource is created.
mock_provider "aws" {}

variables {
  name       = "shop"
  tables     = [{ changelog = "raw.orders_changelog", mirror = "shop.orders" }]
  changelogs = ["s3://lake/raw/"]
  mirrors    = "s3://lake/mirrors/"
  packages = {
    trigger_zip     = "versions.tf" # any existing file
    job_entry_point = "versions.tf"
    job_environment = "versions.tf"
  }
}

run "every_variable_is_validated" {
  command = plan

  variables {
    name               = "Shop"
    changelogs         = ["s3://lake/"]                                                      # a whole bucket
    packages           = { trigger_zip = "versions.tf", job_image = "1.example/job:latest" } # a tag, not a digest
    architecture       = "riscv"
    network            = { subnet_ids = [], security_group_ids = ["sg-1"] }
    kms_key_arn        = "alias/key"
    lake_key_arns      = ["alias/lake"]
    sweep_minutes      = 60
    log_retention_days = 10
  }

  expect_failures = [
    var.name,
    var.changelogs,
    var.packages,
    var.architecture,
    var.network,
    var.kms_key_arn,
    var.lake_key_arns,
    var.sweep_minutes,
    var.log_retention_days,
  ]
}

run "incomplete_values_are_refused" {
  command = plan

  variables {
    mirrors  = "s3://lake/mirrors"             # no trailing slash
    packages = { trigger_zip = "versions.tf" } # no job
    spark    = { warm_executors = 20 }         # above max_vcpu
  }

  expect_failures = [
    var.mirrors,
    var.packages,
    var.spark,
  ]
}

run "contradicting_values_are_refused" {
  command = plan

  variables {
    mirrors = "s3://lake/raw/mirrors/" # jobs could write changelogs
    spark   = { max_vcpu = 2 }         # no job could start
  }

  expect_failures = [
    var.mirrors,
    var.spark,
  ]
}

# Validated only if the folders are valid.
run "no_tables_and_reserved_settings_are_refused" {
  command = plan

  variables {
    tables   = [] # and none discovered
    settings = { trigger = { launcher = { type = "local" } } }
  }

  expect_failures = [
    var.discover,
    var.settings,
  ]
}

run "unknown_worker_size_is_refused" {
  command = plan

  variables {
    spark = { worker_vcpu = 2, worker_memory_gb = 18 }
  }

  expect_failures = [var.spark]
}

run "disk_encryption_requires_a_key" {
  command = plan

  variables {
    spark = { encrypt_disks = true }
  }

  expect_failures = [var.spark]
}

run "names_without_database_and_foreign_index_location_are_refused" {
  command = plan

  variables {
    tables   = [{ changelog = "orders", mirror = "shop.orders" }] # without a database
    settings = { index_location = "s3://lake/indexes" }
  }

  expect_failures = [
    var.tables,
    var.settings,
  ]
}

run "discovered_mirrors_need_a_separate_database" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    account          = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    changelogs       = [{ bucket = "lake", prefix = "raw/" }]
    mirrors          = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables = [{ database = "raw", table = "*" }]
    mirror_tables    = [{ database = "raw", table = "*" }] # jobs could write the changelogs
    queue_arn        = "arn:aws:sqs:eu-central-1:123456789012:shop"
    state_table_arn  = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
    application_arn  = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1"
    code_arns        = []
    logs             = { bucket = "shop-jobs", prefix = "logs/" }
    log_group_arn    = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop"
  }

  expect_failures = [var.mirror_tables]
}

run "too_many_tables_for_ten_policies_are_refused" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    account          = { id = "123456789012", partition = "aws", region = "eu-central-1" }
    changelogs       = [{ bucket = "lake", prefix = "raw/" }]
    mirrors          = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables = [for n in range(600) : { database = "raw", table = "orders_${n}_changelog" }]
    mirror_tables    = [for n in range(2) : { database = "shop", table = "orders_${n}" }]
    queue_arn        = "arn:aws:sqs:eu-central-1:123456789012:shop"
    state_table_arn  = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
    application_arn  = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1"
    code_arns        = []
    logs             = { bucket = "shop-jobs", prefix = "logs/" }
    log_group_arn    = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop"
  }

  expect_failures = [aws_iam_policy.tables]
}

run "max_wait_must_be_a_duration" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "soon" } }
  }

  expect_failures = [var.settings]
}

run "max_wait_in_minutes_above_lambdas_limit_is_refused" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "20m" } }
  }

  expect_failures = [var.settings]
}

run "max_wait_in_hours_above_lambdas_limit_is_refused" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "1h" } }
  }

  expect_failures = [var.settings]
}

run "fractional_vcpu_is_refused" {
  command = plan

  variables {
    spark = { max_vcpu = 16.5 }
  }

  expect_failures = [var.spark]
}

run "release_label_without_prefix_is_refused" {
  command = plan

  variables {
    spark = { release_label = "7.13" }
  }

  expect_failures = [var.spark]
}

run "duplicate_changelog_folder_is_refused" {
  command = plan

  variables {
    changelogs = ["s3://lake/raw/", "s3://lake/raw/"]
  }

  expect_failures = [var.changelogs]
}

run "more_than_50_changelog_folders_are_refused" {
  command = plan

  variables {
    changelogs = [for at in range(51) : "s3://lake/raw/${at}/"]
  }

  expect_failures = [var.changelogs]
}

run "schedule_minute_above_59_is_refused" {
  command = plan

  variables {
    maintenance_schedule = "cron(99 3 * * ? *)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "schedule_with_two_day_fields_is_refused" {
  command = plan

  variables {
    maintenance_schedule = "cron(17 3 * * * *)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "schedule_with_five_fields_is_refused" {
  command = plan

  variables {
    maintenance_schedule = "cron(17 3 * * ?)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "schedule_rate_of_zero_is_refused" {
  command = plan

  variables {
    maintenance_schedule = "rate(0 days)"
  }

  expect_failures = [var.maintenance_schedule]
}
