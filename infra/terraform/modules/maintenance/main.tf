# `icemirror maintain` by the clock, as a job of the application, in the role that may delete files. EMR is asked by
# the scheduler itself: no function has that role to give away.
locals {
  driver_env = "spark.emr-serverless.driverEnv"

  archives = length(var.archives) == 0 ? {} : { "spark.archives" = "${var.archives[0]}#environment" }
  python   = length(var.archives) == 0 ? "/opt/icemirror/venv/bin/python" : "./environment/bin/python"

  # In arguments, as jobs get it: a property holds 1,024 characters, which some twenty tables fill.
  configuration = regexall(".{1,1000}", base64gzip(var.configuration))

  key      = { for name, arn in { EncryptionKeyArn = var.key_arn } : name => arn if arn != null }
  of_disks = { for name in ["DiskEncryptionConfiguration"] : name => local.key if var.key_arn != null }
  of_logs  = { for name in ["ManagedPersistenceMonitoringConfiguration"] : name => local.key if var.key_arn != null }

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
      MonitoringConfiguration = merge({ S3MonitoringConfiguration = { LogUri = var.log_uri } }, local.of_logs)
    }, local.of_disks)
    Tags = var.tags
  }
}

resource "aws_scheduler_schedule" "this" {
  name                = "${var.name}-maintenance"
  description         = "icemirror: remove what mirrors do not need any more"
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
