# Bucket for code and logs of the jobs. It holds no data and is destroyed with the installation.
resource "aws_s3_bucket" "this" {
  # checkov:skip=CKV_AWS_18: it holds only code and logs; CloudTrail records access
  # checkov:skip=CKV_AWS_144: an apply recreates it
  # checkov:skip=CKV2_AWS_62: no consumer needs events of its objects
  bucket        = "${var.name}-jobs-${var.account_id}"
  force_destroy = true
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket     = aws_s3_bucket.this.id
  depends_on = [aws_s3_bucket_versioning.this]

  rule {
    id     = "logs"
    status = "Enabled"

    filter {
      prefix = local.log_prefix
    }

    expiration {
      days = var.log_retention_days
    }

    noncurrent_version_expiration {
      noncurrent_days = 1
    }
  }

  rule {
    id     = "uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

locals {
  log_prefix = "logs/"

  # The key contains the digest: running jobs keep their code, and an upgrade is a new object.
  files = { for name, path in { "icemirror_job.py" = var.entry_point, "environment.tar.gz" = var.environment } : name => path if path != null }
}

resource "aws_s3_object" "code" {
  for_each = local.files

  bucket = aws_s3_bucket.this.id
  key    = "job/${substr(filesha256(each.value), 0, 16)}/${each.key}"
  source = each.value

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.this, aws_s3_bucket_versioning.this]

  lifecycle {
    create_before_destroy = true
  }
}
