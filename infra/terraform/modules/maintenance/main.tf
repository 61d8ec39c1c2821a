# Scheduled `icemirror maintain`, as a job run in the role that can delete files. EventBridge Scheduler starts the run
# itself, so that no function can pass that role.
locals {
  driver_env = "spark.emr-serverless.driverEnv"

  archives = length(var.archives) == 0 ? {} : { "spark.archives" = "${var.archives[0]}#environment" }
  python   = length(var.archives) == 0 ? "/opt/icemirror/venv/bin/python" : "./environment/bin/python"

  # In arguments, as for all jobs: a Spark property holds 1,024 characters, about twenty tables.
  configuration = regexall(".{1,1000}", base64gzip(var.configuration))

  key             = { for name, arn in { EncryptionKeyArn = var.key_arn } : name => arn if arn != null }
  disk_encryption = { for name in ["DiskEncryptionConfiguration"] : name => local.key if var.key_arn != null }
  log_encryption  = { for name in ["ManagedPersistenceMonitoringConfiguration"] : name => local.key if var.key_arn != null }

  run = {
    ApplicationId           = var.application_id
    ClientToken             = "<aws.scheduler.execution-id>"
    Name                    = "${var.name}-maintenance"
    ExecutionRoleArn        = var.job_role_arn
    ExecutionTimeoutMinutes = 360
    JobDriver = { SparkSubmit = {
      EntryPoint          = var.entry_point
      EntryPointArguments = concat(["maintain", "--json", "--config"], local.configuration)
    } }
    ConfigurationOverrides = merge({
      ApplicationConfiguration = [{
        Classification = "spark-defaults"
        Properties = merge(local.archives, var.workers, {
          "${local.driver_env}.PYSPARK_DRIVER_PYTHON" = local.python
          "${local.driver_env}.PYSPARK_PYTHON"        = local.python
          "spark.executorEnv.PYSPARK_PYTHON"          = local.python
        })
      }]
      MonitoringConfiguration = merge({ S3MonitoringConfiguration = { LogUri = var.log_uri } }, local.log_encryption)
    }, local.disk_encryption)
    Tags = var.tags
  }
}

resource "aws_scheduler_schedule" "this" {
  name                = "${var.name}-maintenance"
  description         = "icemirror: run maintenance of the mirrors"
  schedule_expression = var.schedule
  kms_key_arn         = var.kms_key_arn

  flexible_time_window {
    mode                      = "FLEXIBLE"
    maximum_window_in_minutes = 15
  }

  target {
    arn      = "arn:${var.partition}:scheduler:::aws-sdk:emrserverless:startJobRun"
    role_arn = var.scheduler_role_arn
    input    = jsonencode(local.run)

    dead_letter_config {
      arn = aws_sqs_queue.failures.arn
    }

    retry_policy {
      maximum_event_age_in_seconds = 3600
      maximum_retry_attempts       = 5
    }
  }
}
