# State of tables and workers. If it is lost, the next sweep recreates it.
resource "aws_dynamodb_table" "state" {
  # checkov:skip=CKV_AWS_119: kms_key_arn is used if set, else DynamoDB's key
  name         = var.name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "kind"
  range_key    = "key"
  tags         = var.tags

  attribute {
    name = "kind"
    type = "S"
  }

  attribute {
    name = "key"
    type = "S"
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }
}
