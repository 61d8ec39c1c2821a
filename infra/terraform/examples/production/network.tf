# A network without internet access. VPC endpoints reach the AWS services.
data "aws_availability_zones" "available" {
  # checkov:skip=CKV_AWS_394: uses the first two zones of any number
  state = "available"

  # Zones without EMR Serverless, from AWS' page on endpoints and quotas.
  exclude_zone_ids = ["use1-az3", "cac1-az3", "cac1-az4"]

  # Excludes local zones.
  filter {
    name   = "zone-type"
    values = ["availability-zone"]
  }
}

locals {
  zones = slice(data.aws_availability_zones.available.names, 0, 2)

  # Services that a job calls. S3 and DynamoDB have gateway endpoints, which are free.
  interfaces = ["glue", "kms", "logs", "secretsmanager", "sts"]
}

resource "aws_vpc" "this" {
  # checkov:skip=CKV2_AWS_11: an example; flow logs are a choice of the account
  cidr_block           = "10.20.0.0/16"
  enable_dns_hostnames = true
}

resource "aws_default_security_group" "closed" {
  vpc_id = aws_vpc.this.id
}

resource "aws_subnet" "private" {
  for_each = { for at, zone in local.zones : zone => at }

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 4, each.value)
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id
}

resource "aws_route_table_association" "private" {
  for_each = aws_subnet.private

  subnet_id      = each.value.id
  route_table_id = aws_route_table.private.id
}

resource "aws_security_group" "jobs" {
  name        = "icemirror-jobs"
  description = "Spark workers: traffic among themselves and to the endpoints"
  vpc_id      = aws_vpc.this.id

  ingress {
    description = "Traffic among workers"
    from_port   = 0
    to_port     = 65535
    protocol    = "tcp"
    self        = true
  }

  egress {
    description = "Traffic among workers"
    from_port   = 0
    to_port     = 65535
    protocol    = "tcp"
    self        = true
  }

  egress {
    description     = "S3 and DynamoDB through gateway endpoints"
    from_port       = 443
    to_port         = 443
    protocol        = "tcp"
    prefix_list_ids = [for gateway in aws_vpc_endpoint.gateway : gateway.prefix_list_id]
  }
}

resource "aws_vpc_endpoint" "gateway" {
  for_each = toset(["s3", "dynamodb"])

  vpc_id          = aws_vpc.this.id
  service_name    = "com.amazonaws.${data.aws_region.current.name}.${each.value}"
  route_table_ids = [aws_route_table.private.id]
}

resource "aws_vpc_endpoint" "interface" {
  for_each = toset(local.interfaces)

  vpc_id              = aws_vpc.this.id
  service_name        = "com.amazonaws.${data.aws_region.current.name}.${each.value}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = [for subnet in aws_subnet.private : subnet.id]
  security_group_ids  = [aws_security_group.jobs.id]
}
