# The trigger reads events and table heads, keeps state and launches jobs. It reads no S3 objects.
locals {
  trigger_in_glue = [{ sid = "ReadHeads", actions = ["glue:GetTable"], names = local.changelogs_in_glue }]

  trigger = [
    {
      Sid      = "ReadEvents"
      Effect   = "Allow"
      Action   = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
      Resource = [var.queue_arn]
    },
    {
      Sid      = "LaunchJobs"
      Effect   = "Allow"
      Action   = ["emr-serverless:GetApplication", "emr-serverless:ListJobRuns", "emr-serverless:StartJobRun"]
      Resource = [var.application_arn]
    },
    {
      Sid      = "ManageRuns"
      Effect   = "Allow"
      Action   = ["emr-serverless:CancelJobRun", "emr-serverless:GetJobRun", "emr-serverless:TagResource"]
      Resource = ["${var.application_arn}/jobruns/*"]
    },
    {
      Sid       = "PassJobRole"
      Effect    = "Allow"
      Action    = ["iam:PassRole"]
      Resource  = [aws_iam_role.this["job"].arn]
      Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
    },
    {
      Sid      = "WriteLogs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = ["${var.log_group_arn}:log-stream:*"]
    },
  ]

  kafka = var.msk == null ? null : replace(var.msk.cluster_arn, ":cluster/", ":%s/")

  msk = var.msk == null ? [] : [
    {
      Sid      = "FindBrokers"
      Effect   = "Allow"
      Action   = ["kafka:DescribeCluster", "kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers"]
      Resource = [var.msk.cluster_arn]
    },
    {
      Sid      = "Connect"
      Effect   = "Allow"
      Action   = ["kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration"]
      Resource = [var.msk.cluster_arn]
    },
    {
      Sid      = "ReadTopics"
      Effect   = "Allow"
      Action   = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"]
      Resource = [for topic in var.msk.topics : "${format(local.kafka, "topic")}/${topic}"]
    },
    {
      Sid      = "CommitOffsets"
      Effect   = "Allow"
      Action   = ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"]
      Resource = ["${format(local.kafka, "group")}/${var.msk.consumer_group}"]
    },
    {
      # Lambda reads a cluster through interfaces in the cluster's network. EC2 supports no narrower resource for these
      # calls.
      Sid    = "ReachBrokers"
      Effect = "Allow"
      Action = [
        "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
      ]
      Resource = ["*"]
    },
  ]
}
