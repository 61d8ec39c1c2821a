# `icemirror maintain`: the only one that may delete objects, and only those of mirrors and their indexes. Run by a
# person, or by the clock, as a job; then the scheduler's role may start that job, or tell that it cannot, and no more.
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
      Sid       = "GiveJobItsRole"
      Effect    = "Allow"
      Action    = ["iam:PassRole"]
      Resource  = [aws_iam_role.this["maintenance"].arn]
      Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
    },
    {
      Sid      = "TellOfFailure"
      Effect   = "Allow"
      Action   = ["sqs:SendMessage"]
      Resource = ["arn:${var.account.partition}:sqs:${var.account.region}:${var.account.id}:${var.name}-maintenance-failures"]
    },
  ]

  maintenance_as_job = [for one in concat(local.write_logs, local.read_code) : one if var.maintenance_job]

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
