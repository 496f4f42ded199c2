# The app (the default): docs/guides/deploy.md. The search server: docker build --target serve, docs/guides/serving.md.
FROM python:3.11-slim AS base

RUN useradd --create-home --uid 1000 mrc && install --directory --owner mrc --group mrc /workspace
WORKDIR /app
COPY requirements.txt .
COPY requirements/milvus.txt requirements/
RUN pip install --no-cache-dir --requirement requirements.txt --requirement requirements/milvus.txt
COPY . .
RUN pip install --no-cache-dir --no-deps --editable .

ENV MRC_WORKSPACE=/workspace \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/home/mrc/.cache/numba
USER mrc
VOLUME /workspace

# `mrc serve`: listening at every address, it refuses to start without MRC_SERVE_KEY
FROM base AS serve
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8700/readyz', timeout=4)"]
ENTRYPOINT ["mrc", "serve"]
CMD ["/workspace/experiment.toml", "--host", "0.0.0.0", "--port", "8700"]

# last, so that it is what `docker build .` makes
FROM base AS app
ENV STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["streamlit", "run", "app.py"]
