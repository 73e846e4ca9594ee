# syntax=docker/dockerfile:1

FROM golang:1.26-alpine AS build
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/batchbot ./cmd/batchbot

# git must be 2.38 or newer.
FROM alpine:3.22
RUN apk add --no-cache ca-certificates git tzdata \
 && addgroup -S -g 10001 batchbot \
 && adduser -S -D -u 10001 -G batchbot -h /var/lib/batchbot batchbot \
 && mkdir -p /etc/batchbot /var/lib/batchbot \
 && chown batchbot:batchbot /var/lib/batchbot
COPY --from=build /out/batchbot /usr/local/bin/batchbot

USER 10001:10001
WORKDIR /var/lib/batchbot
# Mirrors of the repositories and, with SQLite, the database.
VOLUME /var/lib/batchbot
# Inside a container, loopback is reached by nobody.
ENV BATCHBOT_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["batchbot"]
CMD ["serve", "--config", "/etc/batchbot/batchbot.yml"]
