# The EMR Serverless application. Stop it with drain.sh before changing image, release or network.
data "aws_subnet" "workers" {
  # `count` instead of `for_each`, because the IDs of subnets that are created in the same plan are not known yet.
  count = var.network == null ? 0 : length(var.network.subnet_ids)

  id = var.network.subnet_ids[count.index]
}

resource "aws_emrserverless_application" "this" {
  name          = var.name
  type          = "SPARK"
  release_label = var.release_label
  architecture  = upper(var.architecture)
  tags          = var.tags

  maximum_capacity {
    cpu    = "${var.maximum.vcpu} vCPU"
    memory = "${var.maximum.memory_gb} GB"
    disk   = "${var.maximum.disk_gb} GB"
  }

  auto_start_configuration {
    enabled = true
  }

  auto_stop_configuration {
    enabled              = true
    idle_timeout_minutes = var.idle_minutes
  }

  dynamic "initial_capacity" {
    for_each = { for kind, count in { Driver = var.warm.drivers, Executor = var.warm.executors } : kind => count if count > 0 }

    content {
      initial_capacity_type = initial_capacity.key

      initial_capacity_config {
        worker_count = initial_capacity.value

        worker_configuration {
          cpu    = "${var.warm.vcpu} vCPU"
          memory = "${var.warm.memory_gb} GB"
        }
      }
    }
  }

  dynamic "image_configuration" {
    for_each = var.image_uri == null ? [] : [var.image_uri]

    content {
      image_uri = image_configuration.value
    }
  }

  dynamic "network_configuration" {
    for_each = var.network == null ? [] : [var.network]

    content {
      subnet_ids         = network_configuration.value.subnet_ids
      security_group_ids = network_configuration.value.security_group_ids
    }
  }

  lifecycle {
    precondition {
      condition     = !anytrue([for subnet in data.aws_subnet.workers : subnet.map_public_ip_on_launch])
      error_message = "A subnet in network.subnet_ids assigns public addresses. Use private subnets."
    }
  }
}
