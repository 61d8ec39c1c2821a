# Resources and configuration that result from the variables, on a mock provider.
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
    trigger_zip     = "versions.tf" # any existing file
    job_entry_point = "versions.tf"
    job_environment = "versions.tf"
  }
}

run "defaults" {
  assert {
    condition     = output.configuration.trigger.launcher.application_id == "00f1" && output.configuration.trigger.state.table == "shop"
    error_message = "The configuration must name the created resources."
  }
  assert {
    condition     = !contains(keys(output.configuration.trigger.launcher), "disk_key_arn") && !contains(keys(module.maintenance[0].run.ConfigurationOverrides), "DiskEncryptionConfiguration")
    error_message = "Without a key, EMR's key must encrypt the disks."
  }
  assert {
    condition = output.configuration.job.spark["spark.driver.cores"] == "2" && output.configuration.job.spark["spark.executor.cores"] == "2" && alltrue([
      for worker in ["driver", "executor"] : tonumber(trimsuffix(output.configuration.job.spark["spark.${worker}.memory"], "g")) * (1 + tonumber(output.configuration.job.spark["spark.emr-serverless.memoryOverheadFactor"])) == 8
    ])
    error_message = "Workers must have the given size: EMR's default is twice that and does not fit the warm workers."
  }
  assert {
    condition     = output.configuration.job.spark["spark.executor.instances"] == "1" && output.configuration.job.spark["spark.dynamicAllocation.initialExecutors"] == "1"
    error_message = "A job must start with one executor, not with EMR's default of three."
  }
  assert {
    condition     = jsonencode(output.configuration.tables) == jsonencode([{ changelog = "raw.orders_changelog", mirror = "shop.orders", primary_keys = ["id"] }])
    error_message = "The configuration must contain only the given options."
  }
  assert {
    condition     = toset(keys(module.events.rules)) == toset(["s3-0", "runs"])
    error_message = "By default the events are commits from S3 and ended runs from EMR."
  }
  assert {
    condition     = length(output.alarm_names) == 12
    error_message = "There must be twelve alarms."
  }
  assert {
    condition     = !strcontains(output.policies.trigger, "s3:")
    error_message = "The trigger must not read objects."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "glue:GetTables")]) && !strcontains(output.policies.maintenance, "changelog")
    error_message = "Without discovery no role lists databases, and maintenance has no access to changelogs."
  }
  assert {
    condition     = !strcontains(output.policies.job, "DeleteObject") && strcontains(output.policies.maintenance, "DeleteObject")
    error_message = "Only maintenance can delete objects."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "kms:") || strcontains(policy, "\"*\"")])
    error_message = "Without a key no policy names one, and no resource is a wildcard."
  }
  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "rejects")])
    error_message = "With on_bad_row = stop no role can create a rejects table."
  }
  assert {
    condition     = module.trigger.function.architecture == "x86_64" && module.spark.application.architecture == "X86_64"
    error_message = "Function and jobs must run on x86_64 by default."
  }
}

run "rejects_tables" {
  variables {
    tables = [
      { changelog = "raw.orders_changelog", mirror = "shop.orders", on_bad_row = "quarantine" },
      { changelog = "raw.items_changelog", mirror = "shop.items", on_bad_row = "quarantine", rejects_table = "bad_items" },
      { changelog = "raw.users_changelog", mirror = "shop.users", on_bad_row = "quarantine", rejects_table = "rejects.users" },
      { changelog = "raw.others_changelog", mirror = "shop.others", rejects_table = "unused" },
    ]
  }

  assert {
    condition = one([for statement in jsondecode(output.policies.job).Statement : statement.Resource if statement.Sid == "WriteRejects"]) == [for name in [
      "catalog", "database/shop", "database/rejects", "table/shop/orders_rejects", "table/shop/bad_items", "table/rejects/users",
    ] : "arn:aws:glue:eu-central-1:123456789012:${name}"]
    error_message = "Jobs can create and write exactly these rejects tables."
  }
  assert {
    condition     = !anytrue([for role in ["trigger", "maintenance", "scheduler"] : strcontains(output.policies[role], "WriteRejects") || strcontains(output.policies[role], "orders_rejects")])
    error_message = "Only jobs can write rejects tables."
  }
}

run "maintenance_without_schedule" {
  variables {
    maintenance_schedule = null
  }

  assert {
    condition     = length(module.maintenance) == 0 && toset(keys(output.policies)) == toset(["trigger", "job", "maintenance"])
    error_message = "Without a schedule no role can start a job in the maintenance role."
  }
  assert {
    condition     = length(output.alarm_names) == 11 && !contains(output.alarm_names, "shop-maintenance") && output.maintenance_failures_url == null
    error_message = "Without a schedule there is no alarm for maintenance."
  }
}

run "maintenance_with_schedule" {
  assert {
    condition     = module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments[0] == "maintain" && module.maintenance[0].run.ApplicationId == "00f1"
    error_message = "The job must run `maintain` on the application."
  }
  assert {
    condition     = strcontains(output.policies.scheduler, "emr-serverless:StartJobRun") && !strcontains(output.policies.scheduler, "s3:")
    error_message = "The scheduler can only start the job."
  }
  assert {
    condition     = one([for statement in jsondecode(output.policies.scheduler).Statement : statement.Resource if contains(statement.Action, "sqs:SendMessage")]) == ["arn:aws:sqs:eu-central-1:123456789012:${module.maintenance[0].failures.name}"]
    error_message = "The scheduler can report a failed start."
  }
  assert {
    condition     = contains(output.alarm_names, "shop-maintenance") && module.maintenance[0].failures.name == "shop-maintenance-failures"
    error_message = "Maintenance must have an alarm."
  }
}

run "all_features" {
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
    error_message = "The configuration must contain the given settings and the module's."
  }
  assert {
    condition     = output.configuration.job.linger == "5m" && output.configuration.job.spark["spark.driver.memory"] == "10g" && output.configuration.job.spark["spark.log.level"] == "WARN" && output.configuration.job.spark["spark.driver.cores"] == "4"
    error_message = "Job settings must override the module's Spark properties."
  }
  assert {
    condition     = alltrue([for worker in ["driver", "executor"] : module.maintenance[0].run.ConfigurationOverrides.ApplicationConfiguration[0].Properties["spark.${worker}.cores"] == "4"])
    error_message = "Maintenance must have workers of the same size."
  }
  assert {
    condition     = output.configuration.trigger.launcher.entry_point == "local:///opt/icemirror/icemirror_job.py" && length(output.configuration.trigger.launcher.archives) == 0
    error_message = "With an image there must be no upload."
  }
  assert {
    condition     = module.trigger.function.architecture == "arm64" && module.spark.application.architecture == "ARM64"
    error_message = "Function and jobs must have the same architecture."
  }
  assert {
    condition     = toset(keys(module.events.rules)) == toset(["s3-0", "glue", "runs"])
    error_message = "There must be a rule for Glue."
  }
  assert {
    condition     = alltrue([for policy in values(output.policies) : strcontains(policy, "arn:aws:kms:eu-central-1:123456789012:key/k")])
    error_message = "Every role must be able to use the key."
  }
  assert {
    condition     = output.configuration.trigger.launcher.log_key_arn == var.kms_key_arn && module.maintenance[0].run.ConfigurationOverrides.MonitoringConfiguration.ManagedPersistenceMonitoringConfiguration.EncryptionKeyArn == var.kms_key_arn
    error_message = "The key must encrypt the logs that EMR keeps."
  }
  assert {
    condition     = alltrue([for role in ["trigger", "scheduler"] : strcontains(output.policies[role], "kms:DescribeKey")]) && !strcontains(output.policies.job, "kms:DescribeKey")
    error_message = "Launching roles must be able to describe the key, else EMR refuses jobs with encrypted disks."
  }
  assert {
    condition     = alltrue([for role in ["job", "maintenance"] : strcontains(output.policies[role], "key/lake")]) && !strcontains(output.policies.trigger, "key/lake")
    error_message = "Only the roles that read the lake can use the lake's keys."
  }
  assert {
    condition     = output.configuration.trigger.launcher.disk_key_arn == var.kms_key_arn && module.maintenance[0].run.ConfigurationOverrides.DiskEncryptionConfiguration.EncryptionKeyArn == var.kms_key_arn
    error_message = "The key must encrypt the disks of all jobs."
  }
  assert {
    condition     = strcontains(output.policies.trigger, "\"kafka:DescribeCluster\"") && strcontains(output.policies.trigger, "topic/c/u-1/t") && strcontains(output.policies.trigger, "group/c/u-1/shop")
    error_message = "The trigger must be able to read its topics in its consumer group."
  }
  assert {
    condition     = strcontains(output.policies.job, "table/raw/*") && strcontains(output.policies.job, "table/shop/*")
    error_message = "Jobs must reach all tables of the databases with discovery."
  }
  assert {
    condition = alltrue([for role in ["trigger", "job", "maintenance"] : one([for statement in jsondecode(output.policies[role]).Statement : statement.Resource if contains(statement.Action, "glue:GetTables")]) == [
      for name in ["catalog", "database/raw", "table/raw/*"] : "arn:aws:glue:eu-central-1:123456789012:${name}"
    ]])
    error_message = "Discovery must list only the databases of the changelogs."
  }
}

run "maintenance_of_100_tables" {
  variables {
    tables = [for n in range(100) : { changelog = "raw.orders_${n}_changelog", mirror = "shop.orders_${n}", primary_keys = ["id_${n}"] }]
  }

  assert {
    condition     = alltrue([for value in values(module.maintenance[0].run.ConfigurationOverrides.ApplicationConfiguration[0].Properties) : length(value) <= 1024])
    error_message = "An EMR property has at most 1,024 characters."
  }

  assert {
    condition     = join("", slice(module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments, 3, length(module.maintenance[0].run.JobDriver.SparkSubmit.EntryPointArguments))) == base64gzip(jsonencode(output.configuration))
    error_message = "The arguments must contain the configuration in pieces."
  }
}

run "policies_of_200_tables" {
  command = plan

  module {
    source = "./modules/iam"
  }

  variables {
    account                  = { id = "123456789012", partition = "aws-us-gov", region = "us-gov-west-1" }
    changelogs               = [for n in range(40) : { bucket = "lake", prefix = "raw/${n}/" }]
    mirrors                  = [{ bucket = "lake", prefix = "mirrors/" }]
    changelog_tables         = [for n in range(200) : { database = "raw", table = format("table_in_the_source_%03d_changelog", n) }]
    mirror_tables            = [for n in range(200) : { database = "shop", table = format("table_in_the_source_%03d", n) }]
    rejects_tables           = [for n in range(100) : { database = "shop", table = format("table_in_the_source_%03d_rejects", n) }]
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
    error_message = "A managed policy has at most 6,144 characters."
  }

  assert {
    condition = alltrue([for role, tables in { trigger = 200, job = 500, maintenance = 200 } : length(distinct(flatten([
      for part, policy in aws_iam_policy.tables : [for statement in jsondecode(policy.policy).Statement : [for arn in statement.Resource : arn if strcontains(arn, ":table/")]] if startswith(part, role)
    ]))) == tables])
    error_message = "Every table must be in a policy."
  }

  assert {
    condition     = alltrue([for policy in aws_iam_policy.tables : length(distinct(jsondecode(policy.policy).Statement[*].Sid)) == length(jsondecode(policy.policy).Statement)])
    error_message = "Statement IDs of a policy must be unique."
  }

  assert {
    condition     = max([for role in ["trigger", "job", "maintenance"] : length([for part in keys(aws_iam_policy.tables) : part if startswith(part, role)])]...) <= 10
    error_message = "A role has at most ten managed policies."
  }

  assert {
    condition     = alltrue([for role in aws_iam_role.this : role.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"])
    error_message = "All roles must have the boundary."
  }
}

run "null_settings" {
  variables {
    settings             = null
    maintenance_schedule = "rate(1 day)"
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 60
    error_message = "The default timeout must be 60 s."
  }
}

run "max_wait_in_milliseconds" {
  variables {
    settings = { trigger = { max_wait = "500ms" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 60
    error_message = "The timeout must be max_wait and 30 s, but at least 60 s."
  }
}

run "max_wait_as_a_number" {
  variables {
    settings = { trigger = { max_wait = 45 } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 75
    error_message = "The timeout must be max_wait and 30 s, but at least 60 s."
  }
}

run "max_wait_in_minutes" {
  variables {
    settings = { trigger = { max_wait = "14 m" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 870
    error_message = "The timeout must be max_wait and 30 s, but at least 60 s."
  }
}

run "longest_max_wait" {
  variables {
    settings = { trigger = { max_wait = "870s" } }
  }

  assert {
    condition     = module.trigger.function.timeout_seconds == 900
    error_message = "The timeout must be max_wait and 30 s, but at least 60 s."
  }
}
