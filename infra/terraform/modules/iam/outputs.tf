output "role_arns" {
  value       = { for name, role in aws_iam_role.this : name => role.arn }
  description = "ARNs of the roles: trigger, job, maintenance, and scheduler if there is one."
  depends_on  = [aws_iam_role_policy.this, aws_iam_role_policy_attachment.tables]
}

output "policies" {
  value = { for role, policy in aws_iam_role_policy.this : role => jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      jsondecode(policy.policy).Statement,
      flatten([for part, managed in aws_iam_policy.tables : jsondecode(managed.policy).Statement if local.table_policies[part].role == role]),
    )
  }) }
  description = "All permissions of each role, as one JSON policy."
}
