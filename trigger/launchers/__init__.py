"""Platforms that workers are started on: local processes, EMR Serverless, Kubernetes."""
