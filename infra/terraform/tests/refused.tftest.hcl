# What is wrong is refused before anything is made.
mock_provider "aws" {}

variables {
  name       = "shop"
  tables     = [{ changelog = "raw.orders_changelog", mirror = "shop.orders" }]
  changelogs = ["s3://lake/raw/"]
  mirrors    = "s3://lake/mirrors/"
  packages = {
    trigger_zip     = "versions.tf" # any file will do
    job_entry_point = "versions.tf"
    job_environment = "versions.tf"
  }
}

run "one_thing_wrong_with_each" {
  command = plan

  variables {
    name               = "Shop"
    changelogs         = ["s3://lake/"]                                                      # a whole bucket
    packages           = { trigger_zip = "versions.tf", job_image = "1.example/job:latest" } # a tag may move
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

run "another_thing_wrong" {
  command = plan

  variables {
    mirrors  = "s3://lake/mirrors"             # no slash
    packages = { trigger_zip = "versions.tf" } # no job
    spark    = { warm_executors = 20 }         # more than the cap
  }

  expect_failures = [
    var.mirrors,
    var.packages,
    var.spark,
  ]
}

run "things_that_do_not_go_together" {
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

# What is looked at once the folders are right.
run "nothing_to_mirror" {
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

run "workers_that_emr_has_not" {
  command = plan

  variables {
    spark = { worker_vcpu = 2, worker_memory_gb = 18 }
  }

  expect_failures = [var.spark]
}

run "disks_without_a_key" {
  command = plan

  variables {
    spark = { encrypt_disks = true }
  }

  expect_failures = [var.spark]
}

run "what_jobs_could_not_write" {
  command = plan

  variables {
    tables   = [{ changelog = "orders", mirror = "shop.orders" }] # of no database
    settings = { index_location = "s3://lake/indexes" }
  }

  expect_failures = [
    var.tables,
    var.settings,
  ]
}

run "mirrors_among_discovered_changelogs" {
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

run "more_tables_than_policies_hold" {
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

run "a_wait_that_is_no_time" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "soon" } }
  }

  expect_failures = [var.settings]
}

run "a_wait_that_lambda_would_end" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "20m" } }
  }

  expect_failures = [var.settings]
}

run "a_wait_of_an_hour" {
  command = plan

  variables {
    settings = { trigger = { max_wait = "1h" } }
  }

  expect_failures = [var.settings]
}

run "half_a_processor" {
  command = plan

  variables {
    spark = { max_vcpu = 16.5 }
  }

  expect_failures = [var.spark]
}

run "a_release_without_its_first_word" {
  command = plan

  variables {
    spark = { release_label = "7.13" }
  }

  expect_failures = [var.spark]
}

run "a_folder_twice" {
  command = plan

  variables {
    changelogs = ["s3://lake/raw/", "s3://lake/raw/"]
  }

  expect_failures = [var.changelogs]
}

run "more_folders_than_a_policy_holds" {
  command = plan

  variables {
    changelogs = [for at in range(51) : "s3://lake/raw/${at}/"]
  }

  expect_failures = [var.changelogs]
}

run "minutes_that_no_clock_has" {
  command = plan

  variables {
    maintenance_schedule = "cron(99 3 * * ? *)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "days_told_twice" {
  command = plan

  variables {
    maintenance_schedule = "cron(17 3 * * * *)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "five_fields" {
  command = plan

  variables {
    maintenance_schedule = "cron(17 3 * * ?)"
  }

  expect_failures = [var.maintenance_schedule]
}

run "never_a_day" {
  command = plan

  variables {
    maintenance_schedule = "rate(0 days)"
  }

  expect_failures = [var.maintenance_schedule]
}
