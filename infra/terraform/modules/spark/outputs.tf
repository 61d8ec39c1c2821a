output "application" {
  value       = { id = aws_emrserverless_application.this.id, arn = aws_emrserverless_application.this.arn, architecture = aws_emrserverless_application.this.architecture }
  description = "The application: ID, ARN and CPU architecture."
}

output "entry_point" {
  value       = var.image_uri == null ? "s3://${aws_s3_bucket.this.id}/${aws_s3_object.code["icemirror_job.py"].key}" : "local:///opt/icemirror/icemirror_job.py"
  description = "URI of the jobs' entry point."
}

output "archives" {
  value       = var.image_uri == null ? ["s3://${aws_s3_bucket.this.id}/${aws_s3_object.code["environment.tar.gz"].key}"] : []
  description = "URIs of the jobs' Python environment; empty with an image."
}

output "code_arns" {
  value       = [for object in aws_s3_object.code : "${aws_s3_bucket.this.arn}/${object.key}"]
  description = "ARNs of the S3 objects with the jobs' code."
}

output "logs" {
  value       = { bucket = aws_s3_bucket.this.id, prefix = local.log_prefix, uri = "s3://${aws_s3_bucket.this.id}/${local.log_prefix}" }
  description = "S3 location of the jobs' logs."
}
