# The configuration of the trigger and the jobs, written from the variables and the created resources.
locals {
  workers = merge(
    # EMR's default workers are larger and do not fit the warm ones. Half of the memory is for Java, half for Python, which
    # holds the rows.
    { for worker in ["driver", "executor"] : "spark.${worker}.cores" => tostring(var.spark.worker_vcpu) },
    { for worker in ["driver", "executor"] : "spark.${worker}.memory" => "${var.spark.worker_memory_gb / 2}g" },
    # EMR's default is three executors at the start of a job.
    { for property in ["spark.executor.instances", "spark.dynamicAllocation.initialExecutors"] : property => "1" },
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
      tables   = local.settings_of.tables
      discover = local.settings_of.discover
      trigger  = local.trigger_settings
    },
  )
}
