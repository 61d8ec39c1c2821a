output "run" {
  value       = local.run
  description = "What EMR is asked for."
}
