output "application" {
  value       = { id = aws_emrserverless_application.this.id, arn = aws_emrserverless_application.this.arn, architecture = aws_emrserverless_application.this.architecture }
  description = "The application, and its processors."
}

output "entry_point" {
  value       = var.image_uri == null ? "s3://${aws_s3_bucket.this.id}/${aws_s3_object.code["icemirror_job.py"].key}" : "local:///opt/icemirror/icemirror_job.py"
  description = "What a job runs."
}

output "archives" {
  value       = var.image_uri == null ? ["s3://${aws_s3_bucket.this.id}/${aws_s3_object.code["environment.tar.gz"].key}"] : []
  description = "The Python environment of a job; none with an image."
}

output "code_arns" {
  value       = [for object in aws_s3_object.code : "${aws_s3_bucket.this.arn}/${object.key}"]
  description = "The objects that a job is made of."
}

output "logs" {
  value       = { bucket = aws_s3_bucket.this.id, prefix = local.log_prefix, uri = "s3://${aws_s3_bucket.this.id}/${local.log_prefix}" }
  description = "Where jobs write their logs."
}
