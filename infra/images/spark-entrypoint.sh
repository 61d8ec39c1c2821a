#!/bin/sh
# Entry point of Spark pods on Kubernetes: runs `driver …` and `executor`. Other commands run unchanged.
set -eu

# Spark passes Java options as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …; each can contain spaces.
executor() {
    index=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$index+x}\" ]"; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$index\""
        index=$((index + 1))
    done
    classpath="${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_HOME}/conf:${SPARK_HOME}/jars/*"
    exec tini -s -- java "$@" "-Xms${SPARK_EXECUTOR_MEMORY}" "-Xmx${SPARK_EXECUTOR_MEMORY}" -cp "$classpath" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

case "${1:-}" in
driver)
    shift
    exec tini -s -- "${SPARK_HOME}/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS}" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=${SPARK_DRIVER_BIND_ADDRESS}" "$@"
    ;;
executor)
    shift
    executor "$@"
    ;;
*)
    exec "$@"
    ;;
esac
