# Jobs read changelogs and write mirrors. They delete nothing: the maintenance role removes the files of failed commits and
# expired snapshots.
locals {
  write_logs = [{
    Sid      = "WriteLogs"
    Effect   = "Allow"
    Action   = ["s3:PutObject"]
    Resource = ["${local.s3}${var.logs.bucket}/${var.logs.prefix}*"]
  }]
  read_code = length(var.code_arns) == 0 ? [] : [{
    Sid      = "ReadCode"
    Effect   = "Allow"
    Action   = ["s3:GetObject"]
    Resource = var.code_arns
  }]
  create_and_commit = ["glue:CreateDatabase", "glue:CreateTable", "glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"]

  job_in_glue = [
    { sid = "GetChangelogs", actions = ["glue:GetTable"], names = local.changelogs_in_glue },
    { sid = "CommitMirrors", actions = local.create_and_commit, names = local.mirrors_in_glue },
    { sid = "WriteRejects", actions = local.create_and_commit, names = local.rejects_in_glue },
  ]

  job = concat(
    [
      {
        Sid      = "ReadChangelogs"
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = [for folder in var.changelogs : "${local.s3}${folder.bucket}/${folder.prefix}*"]
      },
      {
        Sid      = "WriteMirrors"
        Effect   = "Allow"
        Action   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        Resource = local.mirror_objects
      },
    ],
    local.write_logs,
    local.read_code,
    length(var.secret_arns) == 0 ? [] : [{
      Sid      = "ReadSecrets"
      Effect   = "Allow"
      Action   = ["secretsmanager:GetSecretValue"]
      Resource = var.secret_arns
    }],
  )
}
