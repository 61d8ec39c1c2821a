# The role of `icemirror maintain` is the only one that can delete objects, and only those of mirrors and their indexes. A
# user assumes it, or a scheduled job runs in it. The scheduler's role can only start that job and report a failure.
locals {
  scheduler = [
    {
      Sid      = "StartJob"
      Effect   = "Allow"
      Action   = ["emr-serverless:StartJobRun"]
      Resource = [var.application_arn]
    },
    {
      Sid      = "TagJob"
      Effect   = "Allow"
      Action   = ["emr-serverless:TagResource"]
      Resource = ["${var.application_arn}/jobruns/*"]
    },
    {
      Sid       = "PassMaintenanceRole"
      Effect    = "Allow"
      Action    = ["iam:PassRole"]
      Resource  = [aws_iam_role.this["maintenance"].arn]
      Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
    },
    {
      Sid      = "ReportFailure"
      Effect   = "Allow"
      Action   = ["sqs:SendMessage"]
      Resource = ["arn:${var.account.partition}:sqs:${var.account.region}:${var.account.id}:${var.name}-maintenance-failures"]
    },
  ]

  maintenance_as_job = [for statement in concat(local.write_logs, local.read_code) : statement if var.maintenance_job]

  maintenance_in_glue = [
    { sid = "CommitMirrors", actions = ["glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"], names = local.mirrors_in_glue },
  ]

  maintenance = [
    {
      Sid      = "CleanMirrors"
      Effect   = "Allow"
      Action   = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
      Resource = local.mirror_objects
    },
  ]
}
