# The first plan of complete configurations, in which most names are still unknown.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }
  mock_data "aws_availability_zones" {
    defaults = { names = ["us-east-1a", "us-east-1b", "us-east-1c"] }
  }
}

run "production_example_can_be_planned" {
  command = plan

  module {
    source = "./examples/production"
  }

  variables {
    trigger_image   = "1.example/function@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    job_image       = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    msk_cluster_arn = "arn:aws:kafka:us-east-1:123456789012:cluster/c/u-1"
    alarm_email     = "oncall@example.com"
  }

  assert {
    condition     = length(aws_subnet.private) == 2
    error_message = "Jobs must have subnets in two zones."
  }
  assert {
    condition     = contains(data.aws_availability_zones.available.exclude_zone_ids, "use1-az3")
    error_message = "Zones without EMR Serverless must be excluded."
  }
}

run "lake_and_network_can_be_created_in_the_same_configuration" {
  command = plan

  module {
    source = "./tests/unknown_at_plan"
  }
}
