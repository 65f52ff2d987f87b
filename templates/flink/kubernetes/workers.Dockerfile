# Python with the project and your datasets: the image of the worker pools and of the launcher.
#   docker build -f templates/flink/kubernetes/workers.Dockerfile -t REGISTRY/datasets-workers:1 .
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir '/src[beam,image,remote,files]'
# Example datasets: pipelines.stdlib_source, pipelines.digits. Install your own package instead:
# RUN pip install --no-cache-dir my_datasets
COPY pipelines /datasets/pipelines
ENV PYTHONPATH=/datasets
CMD ["python", "-m", "beam_datasets.beam.worker_pool", "--port", "50000"]
