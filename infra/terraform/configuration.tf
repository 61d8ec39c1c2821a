# The configuration of trigger and jobs: made here, from what is made here, and nowhere else.
locals {
  # What was not given is not written, in sections neither.
  sections = ["columns", "metadata_columns", "operation_values"]
  table_settings = [for table in var.tables : merge(
    { for key, value in table : key => value if value != null && !contains(local.sections, key) },
    { for key in local.sections : key => { for name, value in table[key] : name => value if value != null } if table[key] != null },
  )]
  discover_settings = [for one in var.discover : merge(
    { for key, value in one : key => value if value != null && !contains(local.sections, key) },
    { for key in local.sections : key => { for name, value in one[key] : name => value if value != null } if one[key] != null },
  )]

  # Half of a worker's memory is Java's, half Python's, which has the rows. EMR's own workers are of another size than those
  # that wait, and a job of its would begin with three executors.
  workers = merge(
    { for one in ["driver", "executor"] : "spark.${one}.cores" => tostring(var.spark.worker_vcpu) },
    { for one in ["driver", "executor"] : "spark.${one}.memory" => "${var.spark.worker_memory_gb / 2}g" },
    { for one in ["spark.executor.instances", "spark.dynamicAllocation.initialExecutors"] : one => "1" },
    { "spark.emr-serverless.memoryOverheadFactor" = "1.0" },
  )
  job_settings = merge(try(var.settings.job, {}), { spark = merge(local.workers, try(var.settings.job.spark, {})) })

  trigger_settings = merge(try(var.settings.trigger, {}), {
    state = { type = "dynamodb", table = module.trigger.state_table.name, region = local.account.region }
    launcher = merge({
      type               = "emr-serverless"
      application_id     = module.spark.application.id
      execution_role_arn = module.iam.role_arns.job
      region             = local.account.region
      entry_point        = module.spark.entry_point
      archives           = module.spark.archives
      log_uri            = module.spark.logs.uri
      tags               = var.tags
    }, { for key in ["disk_key_arn", "log_key_arn"] : key => local.job_key_arn if local.job_key_arn != null })
  })

  configuration = merge(
    { project_ref = var.name },
    { for key, value in var.settings : key => value if !contains(["job", "trigger"], key) },
    {
      iceberg = { catalog = {
        type          = "glue"
        warehouse     = trimsuffix(var.mirrors, "/")
        "glue.region" = local.account.region
        "s3.region"   = local.account.region
      } }
      job      = local.job_settings
      tables   = local.table_settings
      discover = local.discover_settings
      trigger  = local.trigger_settings
    },
  )
}
