# What the modules make of the variables, on a provider that only pretends.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_data "aws_subnet" {
    defaults = { map_public_ip_on_launch = false }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/shop-any" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/shop-any" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-central-1:123456789012:shop-any" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = { arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop" }
  }
  mock_resource "aws_emrserverless_application" {
    defaults = { id = "00f1", arn = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/shop-any" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-central-1:123456789012:function:shop" }
  }
  mock_resource "aws_scheduler_schedule" {
    defaults = { arn = "arn:aws:scheduler:eu-central-1:123456789012:schedule/default/shop-maintenance" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::shop-jobs-123456789012" }
  }
}

variables {
  name       = "shop"
  tables     = [{ changelog = "raw.orders_changelog", mirror = "shop.orders", primary_keys = ["id"] }]
  changelogs = ["s3://lake/raw/"]
  mirrors    = "s3://lake/mirrors/"
  packages = {
    trigger_zip     = "versions.tf" # any file will do
    job_entry_point = "versions.tf"
    job_environment = "versions.tf"
  }
}

run "little" {
  assert {
    condition     = output.configuration.trigger.launcher.application_id == "00f1" && output.configuration.trigger.state.table == "shop"
    error_message = "The configuration names what was made."
  }
  assert {
    condition     = !contains(keys(output.configuration.trigger.launcher), "disk_key_arn") && !contains(keys(module.maintenance[0].run.ConfigurationOverrides), "DiskEncryptionConfiguration")
    error_message = "Without a key, disks are encrypted with EMR's own."
  }
  assert {
    condition = output.configuration.job.spark["spark.driver.cores"] == "2" && output.configuration.job.spark["spark.executor.cores"] == "2" && alltrue([
      for worker in ["driver", "executor"] : tonumber(trimsuffix(output.configuration.job.spark["spark.${worker}.memory"], "g")) * (1 + tonumber(output.configuration.job.spark["spark.emr-serverless.memoryOverheadFactor"])) == 8
    ])
    error_message = "Workers of jobs are as large as was said: EMR's own are twice that, and do not fit those that wait."
  }
  assert {
    condition     = output.configuration.job.spark["spark.executor.instances"] == "1" && output.configuration.job.spark["spark.dynamicAllocation.initialExecutors"] == "1"
    error_message = "A job does not begin with three executors that it does not need."
  }
  assert {
    condition     = jsonencode(output.configuration.tables) == jsonencode([{ changelog = "raw.orders_changelog", mirror = "shop.orders", primary_keys = ["id"] }])
    error_message = "What was not given is not in the configuration."
  }
  assert {
    condition     = toset(keys(module.events.rules)) == toset(["s3-0", "runs"])
    error_message = "By default commits are heard of from S3, and jobs' ends from EMR."
  }
  assert {
    condition     = length(output.alarm_names) == 12
    error_message = "There are twelve alarms."
  }
  assert {
    condition     = !strcontains(output.policies.trigger, "s3:")
    error_message = "The trigger reads no objects."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "glue:GetTables")]) && !strcontains(output.policies.maintenance, "changelog")
    error_message = "Where changelogs are named, nobody lists databases; and maintenance does without changelogs."
  }
  assert {
    condition     = !strcontains(output.policies.job, "DeleteObject") && strcontains(output.policies.maintenance, "DeleteObject")
    error_message = "Only maintenance deletes objects."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "kms:") || strcontains(policy, "\"*\"")])
    error_message = "Without a key nothing is said of one; and no resource is a wildcard."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "rejects")])
    error_message = "Where bad rows stop a table, nobody may make a table for them."
  }
  assert {
    condition     = module.trigger.function.architecture == "x86_64" && module.spark.application.architecture == "X86_64"
    error_message = "Function and jobs run on x86_64, unless another is asked for."
  }
}

run "bad_rows_put_aside" {
  variables {
    tables = [
      { changelog = "raw.orders_changelog", mirror = "shop.orders", on_bad_row = "quarantine" },
      { changelog = "raw.items_changelog", mirror = "shop.items", on_bad_row = "quarantine", rejects_table = "bad_items" },
      { changelog = "raw.users_changelog", mirror = "shop.users", on_bad_row = "quarantine", rejects_table = "apart.users" },
      { changelog = "raw.others_changelog", mirror = "shop.others", rejects_table = "unused" },
    ]
  }

  assert {
    condition = one([for one in jsondecode(output.policies.job).Statement : one.Resource if one.Sid == "PutBadRowsAside"]) == [for name in [
      "catalog", "database/shop", "database/apart", "table/shop/orders_rejects", "table/shop/bad_items", "table/apart/users",
    ] : "arn:aws:glue:eu-central-1:123456789012:${name}"]
    error_message = "Jobs may make and write these tables for bad rows, and no others."
  }
  assert {
    condition     = !anytrue([for role in ["trigger", "maintenance", "scheduler"] : strcontains(output.policies[role], "PutBadRowsAside") || strcontains(output.policies[role], "orders_rejects")])
    error_message = "Nobody but jobs puts rows aside."
  }
}

run "maintenance_by_hand" {
  variables {
    maintenance_schedule = null
  }

  assert {
    condition     = length(module.maintenance) == 0 && toset(keys(output.policies)) == toset(["trigger", "job", "maintenance"])
    error_message = "Without a schedule nobody may start a job in the role that deletes."
  }
  assert {
    condition     = length(output.alarm_names) == 11 && !contains(output.alarm_names, "shop-maintenance") && output.maintenance_failures_url == null
    error_message = "What no clock runs, no alarm watches."
  }
}

run "maintenance_by_the_clock" {
  assert {
    condition     = module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments[0] == "maintain" && module.maintenance[0].run.ApplicationId == "00f1"
    error_message = "The job is the command of that name, on the application."
  }
  assert {
    condition     = strcontains(output.policies.scheduler, "emr-serverless:StartJobRun") && !strcontains(output.policies.scheduler, "s3:")
    error_message = "The scheduler starts it, and no more."
  }
  assert {
    condition     = one([for one in jsondecode(output.policies.scheduler).Statement : one.Resource if contains(one.Action, "sqs:SendMessage")]) == ["arn:aws:sqs:eu-central-1:123456789012:${module.maintenance[0].failures.name}"]
    error_message = "The scheduler may tell that it could not start it."
  }
  assert {
    condition     = contains(output.alarm_names, "shop-maintenance") && module.maintenance[0].failures.name == "shop-maintenance-failures"
    error_message = "An alarm watches it."
  }
}

run "much" {
  variables {
    tables       = []
    discover     = [{ namespace = "raw", match = "*_changelog", mirror_namespace = "shop" }]
    architecture = "arm64"
    packages = {
      trigger_image = "1.example/trigger@sha256:0000000000000000000000000000000000000000000000000000000000000000"
      job_image     = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    }
    network       = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1"] }
    kms_key_arn   = "arn:aws:kms:eu-central-1:123456789012:key/k"
    lake_key_arns = ["arn:aws:kms:eu-central-1:123456789012:key/lake"]
    events        = { glue = true, own_bucket_notifications = true, msk = { cluster_arn = "arn:aws:kafka:eu-central-1:123456789012:cluster/c/u-1", topics = ["t"] } }
    settings      = { merge_interval = "30m", job = { linger = "5m", spark = { "spark.driver.memory" = "10g", "spark.log.level" = "WARN" } }, trigger = { max_wait = "2m", max_concurrent_jobs = 2 } }
    spark         = { worker_vcpu = 4, worker_memory_gb = 16, warm_drivers = 1, warm_executors = 2, encrypt_disks = true }
  }

  assert {
    condition     = output.configuration.merge_interval == "30m" && output.configuration.trigger.max_concurrent_jobs == 2 && output.configuration.trigger.state.type == "dynamodb"
    error_message = "Further settings are in the configuration, beside ours."
  }
  assert {
    condition     = output.configuration.job.linger == "5m" && output.configuration.job.spark["spark.driver.memory"] == "10g" && output.configuration.job.spark["spark.log.level"] == "WARN" && output.configuration.job.spark["spark.driver.cores"] == "4"
    error_message = "What is said of jobs goes before what Terraform says."
  }
  assert {
    condition     = alltrue([for worker in ["driver", "executor"] : module.maintenance[0].run.ConfigurationOverrides.ApplicationConfiguration[0].Properties["spark.${worker}.cores"] == "4"])
    error_message = "Maintenance has workers like all jobs."
  }
  assert {
    condition     = output.configuration.trigger.launcher.entry_point == "local:///opt/icemirror/icemirror_job.py" && length(output.configuration.trigger.launcher.archives) == 0
    error_message = "With an image nothing is uploaded."
  }
  assert {
    condition     = module.trigger.function.architecture == "arm64" && module.spark.application.architecture == "ARM64"
    error_message = "Function and jobs run on the same processors."
  }
  assert {
    condition     = toset(keys(module.events.rules)) == toset(["s3-0", "glue", "runs"])
    error_message = "Glue is heard of as well."
  }
  assert {
    condition     = alltrue([for policy in values(output.policies) : strcontains(policy, "arn:aws:kms:eu-central-1:123456789012:key/k")])
    error_message = "Whoever reads or writes needs the key."
  }
  assert {
    condition     = output.configuration.trigger.launcher.log_key_arn == var.kms_key_arn && module.maintenance[0].run.ConfigurationOverrides.MonitoringConfiguration.ManagedPersistenceMonitoringConfiguration.EncryptionKeyArn == var.kms_key_arn
    error_message = "What EMR itself keeps of logs is encrypted with the key."
  }
  assert {
    condition     = alltrue([for role in ["trigger", "scheduler"] : strcontains(output.policies[role], "kms:DescribeKey")]) && !strcontains(output.policies.job, "kms:DescribeKey")
    error_message = "EMR takes no job for encrypted disks from those who may not describe the key."
  }
  assert {
    condition     = alltrue([for role in ["job", "maintenance"] : strcontains(output.policies[role], "key/lake")]) && !strcontains(output.policies.trigger, "key/lake")
    error_message = "Those who read the lake, and they alone, use the lake's own keys."
  }
  assert {
    condition     = output.configuration.trigger.launcher.disk_key_arn == var.kms_key_arn && module.maintenance[0].run.ConfigurationOverrides.DiskEncryptionConfiguration.EncryptionKeyArn == var.kms_key_arn
    error_message = "Disks of all jobs are encrypted with the key."
  }
  assert {
    condition     = strcontains(output.policies.trigger, "\"kafka:DescribeCluster\"") && strcontains(output.policies.trigger, "topic/c/u-1/t") && strcontains(output.policies.trigger, "group/c/u-1/shop")
    error_message = "The trigger reads its topics, in its own group."
  }
  assert {
    condition     = strcontains(output.policies.job, "table/raw/*") && strcontains(output.policies.job, "table/shop/*")
    error_message = "What is discovered is in these databases."
  }
  assert {
    condition = alltrue([for role in ["trigger", "job", "maintenance"] : one([for one in jsondecode(output.policies[role]).Statement : one.Resource if contains(one.Action, "glue:GetTables")]) == [
      for name in ["catalog", "database/raw", "table/raw/*"] : "arn:aws:glue:eu-central-1:123456789012:${name}"
    ]])
    error_message = "Whoever looks for changelogs lists the databases in which they are, and no others."
  }
}

run "maintenance_of_many_tables" {
  variables {
    tables = [for n in range(100) : { changelog = "raw.orders_${n}_changelog", mirror = "shop.orders_${n}", primary_keys = ["id_${n}"] }]
  }

  assert {
    condition     = alltrue([for value in values(module.maintenance[0].run.ConfigurationOverrides.ApplicationConfiguration[0].Properties) : length(value) <= 1024])
    error_message = "EMR takes no longer properties."
  }

  assert {
    condition     = join("", slice(module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments, 3, length(module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments))) == base64gzip(jsonencode(output.configuration))
    error_message = "The configuration is in the arguments, in pieces."
  }
}

run "two_hundred_tables" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    account                  = { id = "123456789012", partition = "aws-us-gov", region = "us-gov-west-1" }
    changelogs               = [for n in range(40) : { bucket = "lake", prefix = "raw/${n}/" }]
    mirrors                  = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables         = [for n in range(200) : { database = "raw", table = format("table_of_the_source_%03d_changelog", n) }]
    mirror_tables            = [for n in range(200) : { database = "shop", table = format("table_of_the_source_%03d", n) }]
    rejects_tables           = [for n in range(100) : { database = "shop", table = format("table_of_the_source_%03d_rejects", n) }]
    queue_arn                = "arn:aws:sqs:eu-central-1:123456789012:shop"
    state_table_arn          = "arn:aws:dynamodb:eu-central-1:123456789012:table/shop"
    application_arn          = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1"
    code_arns                = ["arn:aws:s3:::shop-jobs/code"]
    logs                     = { bucket = "shop-jobs", prefix = "logs/" }
    log_group_arn            = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/shop"
    maintenance_job          = true
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
  }

  assert {
    condition     = alltrue([for policy in aws_iam_policy.tables : length(policy.policy) <= 6144])
    error_message = "IAM takes managed policies of 6,144 characters at most."
  }

  assert {
    condition = alltrue([for role, tables in { trigger = 200, job = 500, maintenance = 200 } : length(distinct(flatten([
      for part, policy in aws_iam_policy.tables : [for one in jsondecode(policy.policy).Statement : [for arn in one.Resource : arn if strcontains(arn, ":table/")]] if startswith(part, role)
    ]))) == tables])
    error_message = "Every table is in one of them."
  }

  assert {
    condition     = alltrue([for policy in aws_iam_policy.tables : length(distinct(jsondecode(policy.policy).Statement[*].Sid)) == length(jsondecode(policy.policy).Statement)])
    error_message = "Statements of a policy have different names."
  }

  assert {
    condition     = max([for role in ["trigger", "job", "maintenance"] : length([for part in keys(aws_iam_policy.tables) : part if startswith(part, role)])]...) <= 10
    error_message = "A role has ten managed policies at most."
  }

  assert {
    condition     = alltrue([for role in aws_iam_role.this : role.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"])
    error_message = "The boundary holds for all roles."
  }
}

run "no_settings" {
  variables {
    settings             = null
    maintenance_schedule = "rate(1 day)"
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 60
    error_message = "The function stays for max_wait, half a minute unless said, and has time for its work."
  }
}

run "a_wait_in_milliseconds" {
  variables {
    settings = { trigger = { max_wait = "500ms" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 60
    error_message = "The function may run for max_wait and half a minute."
  }
}

run "a_wait_in_a_number" {
  variables {
    settings = { trigger = { max_wait = 45 } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 75
    error_message = "The function may run for max_wait and half a minute."
  }
}

run "a_wait_in_minutes" {
  variables {
    settings = { trigger = { max_wait = "14 m" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 870
    error_message = "The function may run for max_wait and half a minute."
  }
}

run "the_longest_wait" {
  variables {
    settings = { trigger = { max_wait = "870s" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 900
    error_message = "The function may run for max_wait and half a minute."
  }
}
