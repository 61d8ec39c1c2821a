# Mirrors two tables of one lake, in the account and region of your credentials.
terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

variable "dist" {
  type        = string
  description = "Output folder of `make package`."
  default     = "../../../../dist"
}

module "icemirror" {
  source = "../.." # git::https://…/icemirror.git//infra/terraform?ref=v…

  tables = [
    { changelog = "raw.orders_changelog", mirror = "shop.orders" },
    { changelog = "raw.items_changelog", mirror = "shop.items" },
  ]
  changelogs = ["s3://example-lake/raw/"]
  mirrors    = "s3://example-lake/mirrors/"
  packages = {
    trigger_zip     = "${var.dist}/icemirror-trigger.zip"
    job_entry_point = "${var.dist}/icemirror_job.py"
    job_environment = "${var.dist}/icemirror-job.tar.gz"
  }
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
