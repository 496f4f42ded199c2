# docs/guides/deploy.md tells how it is run: behind a proxy, with sign-in.
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 mrc && install --directory --owner mrc --group mrc /workspace
WORKDIR /app
COPY requirements.txt .
COPY requirements/milvus.txt requirements/
RUN pip install --no-cache-dir --requirement requirements.txt --requirement requirements/milvus.txt
COPY . .

ENV MRC_WORKSPACE=/workspace \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/home/mrc/.cache/numba \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501
USER mrc
VOLUME /workspace
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["streamlit", "run", "app.py"]
