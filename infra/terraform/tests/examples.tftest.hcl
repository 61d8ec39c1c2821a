# The first plan of whole configurations, in which most names are not known yet.
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

run "the_example_production_can_be_planned" {
  command = plan

  module {
    source = "./examples/production"
  }

  variables {
    trigger_image   = "1.example/function@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    job_image       = "1.example/job@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    msk_cluster_arn = "arn:aws:kafka:us-east-1:123456789012:cluster/c/u-1"
    alarm_email     = "people@example.com"
  }

  assert {
    condition     = length(aws_subnet.private) == 2
    error_message = "Jobs have subnets in two zones."
  }
  assert {
    condition     = contains(data.aws_availability_zones.here.exclude_zone_ids, "use1-az3")
    error_message = "EMR Serverless is not in every zone: a subnet elsewhere is refused."
  }
}

run "a_lake_and_a_network_may_be_made_in_the_same_configuration" {
  command = plan

  module {
    source = "./tests/own_lake"
  }
}
