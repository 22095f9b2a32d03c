# The engine and every command that needs no notebook: docker build --tag mirrorbook .
# It runs as somebody without rights, and writes nowhere but in /tmp:
#   docker run --read-only --tmpfs /tmp --volume "$PWD:/etc/mirrorbook:ro" mirrorbook
FROM python:3.11-slim-bookworm AS build
ENV UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never PYTHON=/usr/local/bin/python3.11
WORKDIR /src
COPY requirements.lock ./
RUN pip install --no-cache-dir "$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements.lock)"
COPY pyproject.toml README.md LICENSE ./
COPY mirror/ mirror/
COPY notebooks/ notebooks/
COPY runbooks/ runbooks/
COPY scenarios/ scenarios/
COPY container/install.sh container/
RUN container/install.sh /src /opt/mirrorbook

FROM python:3.11-slim-bookworm
# Debian keeps one version of each, the newest: a pinned one would be gone with the next security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin mirror
COPY --from=build /opt/mirrorbook /opt/mirrorbook
ENV PATH=/opt/mirrorbook/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 8083
# Not by a client that heeds http_proxy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-Ic", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8083, timeout=4); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
# tini takes in processes of Spark that have lost their parent, and a SIGTERM that comes before Python listens.
ENTRYPOINT ["tini", "--", "mirror"]
CMD ["run", "/etc/mirrorbook/connect-mirror-maker.properties", "--status-port", "8083"]
