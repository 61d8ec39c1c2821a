# Jobs read changelogs and write mirrors; they delete nothing. What a losing attempt or an expired snapshot leaves is
# removed in the maintenance role.
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
  make_and_commit = ["glue:CreateDatabase", "glue:CreateTable", "glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"]

  job = concat(
    [
      {
        Sid      = "ReadChangelogs"
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = [for one in var.changelogs : "${local.s3}${one.bucket}/${one.prefix}*"]
      },
      {
        Sid      = "WriteMirrors"
        Effect   = "Allow"
        Action   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        Resource = local.mirror_objects
      },
      {
        Sid      = "FindChangelogs"
        Effect   = "Allow"
        Action   = ["glue:GetTable"]
        Resource = local.catalog_of_changelogs
      },
      {
        Sid      = "CommitMirrors"
        Effect   = "Allow"
        Action   = local.make_and_commit
        Resource = local.catalog_of_mirrors
      },
    ],
    length(var.rejects_tables) == 0 ? [] : [{
      Sid      = "PutBadRowsAside"
      Effect   = "Allow"
      Action   = local.make_and_commit
      Resource = local.catalog_of_rejects
    }],
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
