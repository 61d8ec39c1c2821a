#!/bin/sh
# Stops an EMR Serverless application so that Terraform may change or destroy it:
#   icemirror pause --match '*'
#   infra/terraform/drain.sh "$(terraform output -raw application_id)" [--cancel]
#   terraform apply        (or destroy)
#   icemirror resume --match '*'
# Waits for running jobs, which end once their tables are paused; --cancel cancels them. A cancelled job leaves the table
# consistent: the next job merges its slice.
# Scheduled maintenance is not paused and would start the application again: the script prints its schedule.
set -eu

application=${1:?"usage: drain.sh APPLICATION_ID [--cancel]"}
cancel=${2:-}
poll_seconds=${DRAIN_POLL_SECONDS:-10}

get_state() {
    aws emr-serverless get-application --application-id "$application" --query application.state --output text
}

list_runs() {
    aws emr-serverless list-job-runs --application-id "$application" \
        --states SUBMITTED PENDING SCHEDULED QUEUED RUNNING CANCELLING --query 'jobRuns[].id' --output text
}

name=$(aws emr-serverless get-application --application-id "$application" --query application.name --output text)
schedule=$(aws scheduler get-schedule --name "$name-maintenance" --query ScheduleExpression --output text 2>/dev/null) || schedule=
[ -z "$schedule" ] || echo "maintenance is not paused and starts at $schedule (UTC): run terraform before then" >&2

while :; do
    state=$(get_state)
    case $state in STOPPED | CREATED) break ;; esac
    running=$(list_runs)
    if [ -n "$running" ] && [ "$running" != None ]; then
        echo "waiting for job runs: $running" >&2
        if [ "$cancel" = --cancel ]; then
            for run in $running; do
                aws emr-serverless cancel-job-run --application-id "$application" --job-run-id "$run" >/dev/null || true
            done
        fi
    else
        echo "application state: $state" >&2
        # Repeated in every round, because a job launched in between starts the application again.
        [ "$state" = STOPPING ] || aws emr-serverless stop-application --application-id "$application" >/dev/null ||
            echo "stop failed, retrying" >&2
    fi
    sleep "$poll_seconds"
done
echo "stopped: terraform can change or destroy $application"
