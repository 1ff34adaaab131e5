#!/bin/bash
# Run the job on a Spark cluster:  deploy/spark/submit.sh MASTER CONFIG [options of spark-submit]
#
#   deploy/spark/submit.sh spark://host:7077 headrace.toml      standalone: the virtual environment lies at
#                                                               the same path on every worker
#   deploy/spark/submit.sh yarn headrace.toml                   YARN: $PACKED_ENVIRONMENT is a packed one
#                                                               (venv-pack), unpacked beside each container
#
# CONFIG says `pmp.job.master = ""` and a `pmp.job.checkpoint_folder` that all machines share. The driver
# runs here, in the foreground; a process manager starts it again when it ends. Kubernetes: kubernetes.yaml.
set -euo pipefail

master=${1:?"usage: $0 MASTER CONFIG [options]"}
config=${2:?"usage: $0 MASTER CONFIG [options]"}
shift 2
here=$(dirname "$(readlink -f "$0")")
connectors=4.0.0 # the newest set of which every module is published
group=org.apache.spark
packages=$group:spark-sql-kafka-0-10_2.13:$connectors,$group:spark-avro_2.13:$connectors
options=()
if [ -n "${SPARK_CONNECTORS:-}" ]; then
  options+=(--jars "$SPARK_CONNECTORS") # paths, comma-separated: where workers reach no registry
else
  options+=(--packages "$packages")
fi
if [ "$master" = yarn ]; then
  options+=(--archives "${PACKED_ENVIRONMENT:?"path of a packed environment"}#environment")
  export PYSPARK_PYTHON=./environment/bin/python # of the workers
fi
export PYSPARK_DRIVER_PYTHON=${PYSPARK_DRIVER_PYTHON:-$(command -v python)}
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$PYSPARK_DRIVER_PYTHON}
exec spark-submit --master "$master" --deploy-mode client "${options[@]}" "$@" "$here/submitted.py" --config "$config"
