# A lake and a network in the same configuration: their names are unknown in the plan.
terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 6.0"
    }
  }
}

resource "aws_s3_bucket" "lake" {
  bucket_prefix = "lake-"
}

resource "aws_subnet" "private" {
  vpc_id     = "vpc-1"
  cidr_block = "10.0.0.0/24"
}

resource "aws_security_group" "jobs" {
  vpc_id = "vpc-1"
}

module "icemirror" {
  source = "../.."

  tables     = [{ changelog = "raw.orders_changelog", mirror = "shop.orders" }]
  changelogs = ["s3://${aws_s3_bucket.lake.id}/raw/", "s3://${aws_s3_bucket.lake.id}/more/"]
  mirrors    = "s3://${aws_s3_bucket.lake.id}/mirrors/"
  packages = {
    trigger_zip     = "versions.tf" # any existing file
    job_entry_point = "versions.tf"
    job_environment = "versions.tf"
  }
  network = { subnet_ids = [aws_subnet.private.id], security_group_ids = [aws_security_group.jobs.id] }
}
