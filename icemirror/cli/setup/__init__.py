"""What commands open first: the selected tables, the job's pipeline, the web server."""
