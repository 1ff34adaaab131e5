#!/bin/bash
# Run the metrics job on a Spark cluster:  deploy/spark/submit.sh MASTER CONFIG [options of spark-submit]
#
#   deploy/spark/submit.sh spark://host:7077 headrace.toml      standalone: the virtual environment must have
#                                                               the same path on every worker
#   deploy/spark/submit.sh yarn headrace.toml                   YARN: $PACKED_ENVIRONMENT is a packed environment
#                                                               (venv-pack), unpacked beside each container
#
# CONFIG must set `pmp.job.master = ""` and a `pmp.job.checkpoint_folder` that all machines share. The driver runs
# here, in the foreground; let a process manager restart it. For Kubernetes see kubernetes.yaml.
#
# The driver sends the connectors to the executors. They are the jars that `make setup` fetched, with verified sums;
# missing ones are fetched. SPARK_CONNECTORS has other paths, separated by commas.
set -euo pipefail

master=${1:?"usage: $0 MASTER CONFIG [options]"}
config=${2:?"usage: $0 MASTER CONFIG [options]"}
shift 2
here=$(dirname "$(readlink -f "$0")")
export PYSPARK_DRIVER_PYTHON=${PYSPARK_DRIVER_PYTHON:-$(command -v python)}
connectors=${SPARK_CONNECTORS:-$("$PYSPARK_DRIVER_PYTHON" "$here/connectors.py")}
options=(--jars "$connectors")
if [ "$master" = yarn ]; then
  options+=(--archives "${PACKED_ENVIRONMENT:?"path of a packed environment"}#environment")
  export PYSPARK_PYTHON=./environment/bin/python # for the workers
fi
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$PYSPARK_DRIVER_PYTHON}
exec spark-submit --master "$master" --deploy-mode client "${options[@]}" "$@" "$here/submitted.py" --config "$config"
