# `icemirror maintain`: the only one that may delete objects, and only those of mirrors and their indexes.
locals {
  maintenance = [
    {
      Sid      = "CleanMirrors"
      Effect   = "Allow"
      Action   = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
      Resource = local.mirror_objects
    },
    {
      Sid      = "CommitMirrors"
      Effect   = "Allow"
      Action   = ["glue:GetDatabase", "glue:GetTable", "glue:UpdateTable"]
      Resource = local.catalog_of_mirrors
    },
  ]
}
