# Python with the project and your datasets: the image of the worker pools and of the launcher.
#   docker build -f templates/flink/kubernetes/workers.Dockerfile -t REGISTRY/datasets-workers:1 .
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir '/src[beam,image,remote,files]'
# RUN pip install --no-cache-dir my_datasets
CMD ["python", "-m", "pipelines.worker_pool", "--port", "50000"]
