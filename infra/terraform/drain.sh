#!/bin/sh
# Stops an EMR Serverless application so that Terraform may change or destroy it:
#   icemirror pause --match '*'
#   infra/terraform/drain.sh "$(terraform output -raw application_id)" [--cancel]
#   terraform apply        (or destroy)
#   icemirror resume --match '*'
# Waits for the jobs that run, which end by themselves once their tables are paused; --cancel ends them. A job that is
# cancelled leaves nothing half done: its slice is merged by the next one.
# Maintenance by the clock is not paused by this, and starts the application again at its time: this says when that is.
set -eu

application=${1:?"usage: drain.sh APPLICATION_ID [--cancel]"}
cancel=${2:-}
seconds=${DRAIN_POLL_SECONDS:-10}

state() {
    aws emr-serverless get-application --application-id "$application" --query application.state --output text
}

runs() {
    aws emr-serverless list-job-runs --application-id "$application" \
        --states SUBMITTED PENDING SCHEDULED QUEUED RUNNING CANCELLING --query 'jobRuns[].id' --output text
}

name=$(aws emr-serverless get-application --application-id "$application" --query application.name --output text)
clock=$(aws scheduler get-schedule --name "$name-maintenance" --query ScheduleExpression --output text 2>/dev/null) || clock=
[ -z "$clock" ] || echo "maintenance is not paused, and starts at $clock (UTC): be done with terraform before" >&2

while :; do
    found=$(state)
    case $found in STOPPED | CREATED) break ;; esac
    left=$(runs)
    if [ -n "$left" ] && [ "$left" != None ]; then
        echo "waiting for: $left" >&2
        if [ "$cancel" = --cancel ]; then
            for run in $left; do
                aws emr-serverless cancel-job-run --application-id "$application" --job-run-id "$run" >/dev/null || true
            done
        fi
    else
        echo "the application is $found" >&2
        # Asked again each time: a job that was launched meanwhile starts it once more.
        [ "$found" = STOPPING ] || aws emr-serverless stop-application --application-id "$application" >/dev/null ||
            echo "it could not be stopped yet" >&2
    fi
    sleep "$seconds"
done
echo "stopped: terraform may change or destroy $application"
