"""Infrastructure as code: Terraform, Kubernetes, images, packages."""
