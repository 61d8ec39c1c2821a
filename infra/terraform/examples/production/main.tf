# Jobs in private subnets, a customer-managed key, events from Glue and from an MSK topic, alarms by e-mail.
terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

variable "trigger_image" {
  type        = string
  description = "Image of the function in ECR, by digest. Dockerfile target: `function`."
}

variable "job_image" {
  type        = string
  description = "Image of the jobs in ECR, by digest. Dockerfile target: `job-emr`. Its repository must allow EMR to pull (docs/how-to/deploy-aws.md)."
}

variable "msk_cluster_arn" {
  type        = string
  description = "MSK cluster that receives the catalog's events."
}

variable "alarm_email" {
  type        = string
  description = "E-mail address that receives alarms."
}

locals {
  name = "icemirror-prod"
}

data "aws_caller_identity" "current" {}

data "aws_region" "current" {}

module "icemirror" {
  source = "../.."

  name = local.name
  discover = [
    { namespace = "raw", match = "*_changelog", mirror_namespace = "shop" },
  ]
  changelogs = ["s3://example-lake/raw/"]
  mirrors    = "s3://example-lake/mirrors/"

  architecture = "arm64"
  packages = {
    trigger_image = var.trigger_image
    job_image     = var.job_image
  }
  spark = {
    max_vcpu       = 64 # above the default quota of 16: docs/how-to/deploy-aws.md
    max_memory_gb  = 256
    max_disk_gb    = 1000
    idle_minutes   = 15
    warm_drivers   = 1
    warm_executors = 2
    encrypt_disks  = true
  }
  network = {
    subnet_ids         = [for subnet in aws_subnet.private : subnet.id]
    security_group_ids = [aws_security_group.jobs.id]
  }
  kms_key_arn = aws_kms_key.this.arn
  events = {
    glue = true
    msk  = { cluster_arn = var.msk_cluster_arn, topics = ["catalog-events"] }
  }
  settings = {
    environment    = "production"
    merge_interval = "30m"
    job            = { linger = "5m" }
    trigger        = { max_concurrent_jobs = 2 }
  }
  alarms             = { topic_arn = aws_sns_topic.alarms.arn, lag_seconds = 300 }
  log_retention_days = 90
  tags               = { service = "icemirror" }
}

resource "aws_sns_topic" "alarms" {
  name              = "icemirror-alarms"
  kms_master_key_id = aws_kms_key.this.arn
}

resource "aws_sns_topic_subscription" "email" {
  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.alarm_email
}

output "configuration" {
  value       = module.icemirror.configuration
  description = "Configuration, for `icemirror config from-terraform`."
}

output "application_id" {
  value       = module.icemirror.application_id
  description = "ID of the EMR Serverless application, for drain.sh."
}

output "policies" {
  value       = module.icemirror.policies
  description = "Permissions of each role, as a JSON policy."
}
