output "role_arns" {
  value       = { for name, role in aws_iam_role.this : name => role.arn }
  description = "ARNs of the roles: trigger, job, maintenance, and of the scheduler, if there is one."
  depends_on  = [aws_iam_role_policy.this]
}

output "policies" {
  value       = { for name, policy in aws_iam_role_policy.this : name => policy.policy }
  description = "What each role may do, as JSON."
}
